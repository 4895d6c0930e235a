from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mexma_cli.errors import MexmaError
from mexma_cli.files import commit
from mexma_cli.settings.convert import ConvertSettings
from mexma_cli.stages.convert.convert import raw_to_store
from mexma_cli.stages.convert.raw import VectorFile
from mexma_cli.store import folder

ROWS = 20_000


class Killed(Exception):
    pass


def killed(*_: object) -> None:
    raise Killed


def convert(folder: Path, raw: str, **options: Any) -> np.ndarray:
    """The rows of the store that one of two raw files, `ones` and `twos`, of one text becomes."""
    (folder / "text").write_text("a line\n" * ROWS)
    for number, name in enumerate(("ones", "twos"), 1):
        (folder / name).write_bytes(np.full((ROWS, 4), number, np.float32).tobytes())
    how: dict[str, Any] = {"language": "und", "argv": ()} | options
    vectors = VectorFile(folder / raw, ConvertSettings(dim=4))
    return raw_to_store(vectors, folder / "text", folder / "v.emb", **how).vectors(0, ROWS)


def test_goes_on_with_the_same_vectors_only(tmp_path: Path) -> None:
    with pytest.raises(Killed):
        convert(tmp_path, "ones", on_progress=killed)
    assert (tmp_path / "v.emb.partial").is_dir()
    with pytest.raises(MexmaError, match=r"v\.emb is there, or was begun, with other vectors than .*twos"):
        convert(tmp_path, "twos")
    assert (convert(tmp_path, "ones") == 1).all()
    assert (convert(tmp_path, "twos", overwrite=True) == 2).all()


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("raw", ["ones", "twos"])
def test_a_run_that_was_killed_at_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, raw: str, after: bool
) -> None:
    def deadly(final: Path) -> None:
        if after:
            commit(final)
        raise Killed

    monkeypatch.setattr(folder, "commit", deadly)
    with pytest.raises(Killed):
        convert(tmp_path, "ones")
    monkeypatch.undo()
    assert (tmp_path / "v.emb").exists() == after
    if raw == "ones":
        assert (convert(tmp_path, raw) == 1).all()
    else:
        with pytest.raises(MexmaError, match="other vectors"):
            convert(tmp_path, raw)
