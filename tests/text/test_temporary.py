"""A full disk under TMPDIR, wherever text waits there."""

from __future__ import annotations

import errno
import tempfile
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mexma_cli.errors import MexmaError
from mexma_cli.main import cli
from mexma_cli.store.shard import OpenShard
from mexma_cli.text.temporary import temporary_space
from tests.stores import full_disk

MESSAGE = (
    f"error: no space left for temporary files in {tempfile.gettempdir()}\nhint: free some space there, or"
)


def run(*words: str | Path, stdin: str | None = None) -> str:
    done = CliRunner().invoke(cli, ["-q", *map(str, words)], stdin)
    assert done.exit_code == 1, done.output
    return done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
@pytest.mark.parametrize(("file", "words"), [("input", ("mine", __file__, "-")), ("source", ("score", "-"))])
def test_what_comes_through_a_pipe(
    file: str, words: tuple[str, ...], sentences: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = tempfile.TemporaryDirectory.__init__

    def full(self: Any, *args: Any, **kwargs: Any) -> None:
        made(self, *args, **kwargs)
        Path(self.name, file).symlink_to("/dev/full")

    monkeypatch.setattr(tempfile.TemporaryDirectory, "__init__", full)
    pairs = "".join(f"{one}\t{other}\n" for one, other in zip(*sentences.values(), strict=True))
    assert run(*words, stdin=pairs).startswith(MESSAGE)


def test_vectors_of_a_text_that_is_mined(
    tmp_path: Path, sentences: dict[str, list[str]], tiny_encoder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, lines in sentences.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    monkeypatch.setattr(OpenShard, "write", full_disk)
    said = run("mine", tmp_path / "fra", tmp_path / "eng", "--model", tiny_encoder, "--device", "cpu")
    assert said.startswith(MESSAGE) and "is kept" not in said, said


def test_other_errors_stay_what_they_are() -> None:
    for error in (MexmaError("no"), OSError(errno.EACCES, "no")):
        with pytest.raises(type(error)) as raised, temporary_space():
            raise error
        assert raised.value is error
