from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mexma_cli import files
from mexma_cli.errors import MexmaError
from mexma_cli.files import commit
from mexma_cli.settings.stages import ConvertSettings
from mexma_cli.stages.convert import (
    is_npy,
    npy_header,
    open_npy,
    open_raw,
    raw_to_store,
    to_raw,
)
from mexma_cli.store import folder
from mexma_cli.store.arrays import mapped

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
    settings = ConvertSettings(dim=4)
    return raw_to_store(folder / raw, settings, folder / "text", folder / "v.emb", **how).vectors(0, ROWS)


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

    monkeypatch.setattr(folder, "files", SimpleNamespace(**vars(files) | {"commit": deadly}))
    with pytest.raises(Killed):
        convert(tmp_path, "ones")
    monkeypatch.undo()
    assert (tmp_path / "v.emb").exists() == after
    if raw == "ones":
        assert (convert(tmp_path, raw) == 1).all()
    else:
        with pytest.raises(MexmaError, match="other vectors"):
            convert(tmp_path, raw)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_comes_back_as_it_was_written(tmp_path: Path, dtype: str) -> None:
    vectors = np.random.default_rng(0).standard_normal((7, 5)).astype(dtype)
    (tmp_path / "v").write_bytes(to_raw(vectors, dtype))
    assert (tmp_path / "v").stat().st_size == vectors.nbytes
    np.testing.assert_array_equal(open_raw(tmp_path / "v", 5, dtype), vectors)


def test_refuses_what_is_no_whole_number_of_rows(tmp_path: Path) -> None:
    path = tmp_path / "v"
    with pytest.raises(MexmaError, match="no such file"):
        open_raw(path, 4, "float32")
    path.write_bytes(b"")
    with pytest.raises(MexmaError, match="is empty"):
        open_raw(path, 4, "float32")
    path.write_bytes(b"\0" * 24)
    with pytest.raises(
        MexmaError, match=r"24 bytes, no whole number of rows of 4 x float32 \(16 bytes each\)"
    ):
        open_raw(path, 4, "float32")
    assert open_raw(path, 4, "float16").shape == (3, 4)
    with pytest.raises(MexmaError, match="is a folder"):
        open_raw(tmp_path, 4, "float32")


def test_refuses_numbers_too_large_for_float16() -> None:
    with pytest.raises(MexmaError, match="too large for float16"):
        to_raw(np.array([[1e6]], np.float32), "float16")


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.ones((2, 3)), "float64"),
        (np.ones(3, np.float32), r"shape \(3,\)"),
        (np.ones((0, 3), np.float32), r"shape \(0, 3\)"),
        (np.array([{}]), "can be read"),
    ],
)
def test_refuses_other_arrays(array: np.ndarray, message: str, tmp_path: Path) -> None:
    np.save(tmp_path / "v.npy", array)
    assert is_npy(tmp_path / "v.npy") and not is_npy(tmp_path) and not is_npy(tmp_path / "none")
    with pytest.raises(MexmaError, match=message):
        open_npy(tmp_path / "v.npy")


def test_header_is_numpys(tmp_path: Path) -> None:
    vectors = np.arange(6, dtype=np.float32).reshape(2, 3)
    (tmp_path / "v").write_bytes(npy_header(2, 3, "float32") + to_raw(vectors, "float32"))
    np.testing.assert_array_equal(np.load(tmp_path / "v"), vectors)


def with_header(path: Path, header: str, data: bytes = b"\0" * 24) -> None:
    text = header.encode().ljust(117) + b"\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + data)


HEADERS = {
    "more rows than there are": "{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 3)}",
    "fewer than none": "{'descr': '<f4', 'fortran_order': False, 'shape': (-1, 3)}",
    "half a row": "{'descr': '<f4', 'fortran_order': False, 'shape': (1.5, 3)}",
    "true rows": "{'descr': '<f4', 'fortran_order': False, 'shape': (True, 3)}",
    "no rows": "{'descr': '<f4', 'fortran_order': False, 'shape': ()}",
    "objects": "{'descr': '|O', 'fortran_order': False, 'shape': (1, 3)}",
    "several numbers": "{'descr': [('a', '<f4'), ('b', '|O')], 'fortran_order': False, 'shape': (1, 3)}",
    "no type": "{'descr': 'x', 'fortran_order': False, 'shape': (1, 3)}",
    "a power": "{'descr': '<f4', 'fortran_order': False, 'shape': (9**9**9, 3)}",
    "code": "__import__('os').system('false')",
    "brackets": "(" * 110,
    "a tab": "\\\t{",
    "nothing": "",
}


@pytest.mark.parametrize("case", HEADERS)
def test_impossible_arrays_are_refused(case: str, tmp_path: Path) -> None:
    """In raw vectors and in stores, whose checksums may be right all the same."""
    path = tmp_path / "v.npy"
    with_header(path, HEADERS[case])
    with pytest.raises(MexmaError, match=r"v\.npy is (an array|no array that can be read)"):
        open_npy(path)
    with pytest.raises(MexmaError, match=r"v\.npy is damaged"):
        mapped(path, (2, 3), "float32", "embed again")


def test_columns_first_are_no_rows(tmp_path: Path) -> None:
    """A store is read row by row, whatever its header says; raw vectors are as NumPy has them."""
    vectors = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.save(tmp_path / "v.npy", np.asfortranarray(vectors))
    np.testing.assert_array_equal(open_npy(tmp_path / "v.npy"), vectors)
    with pytest.raises(MexmaError, match=r"float32 \(2, 3\), column after column, the manifest says"):
        mapped(tmp_path / "v.npy", (2, 3), "float32", "embed again")


@pytest.mark.parametrize("data", [b"", b"\x93NUMPY", b"\x93NUMPY\x03\0\xff\xff\xff\xff", b"PK\x03\x04" * 9])
def test_files_that_break_off(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "v.npy").write_bytes(data)
    with pytest.raises(MexmaError, match=r"v\.npy is damaged"):
        mapped(tmp_path / "v.npy", (2, 3), "float32", "embed again")
