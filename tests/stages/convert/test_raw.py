from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mexma_cli.errors import MexmaError
from mexma_cli.stages.convert.raw import is_npy, npy_header, open_npy, open_raw, to_raw


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_comes_back_as_it_was_written(tmp_path: Path, dtype: str) -> None:
    vectors = np.random.default_rng(0).standard_normal((7, 5)).astype(dtype)
    (tmp_path / "v").write_bytes(to_raw(vectors, dtype))
    assert (tmp_path / "v").stat().st_size == vectors.nbytes
    np.testing.assert_array_equal(open_raw(tmp_path / "v", 5, dtype), vectors)


def test_refuses_what_is_no_whole_number_of_rows(tmp_path: Path) -> None:
    path = tmp_path / "v"
    with pytest.raises(MexmaError, match="no such file"):
        open_raw(path, 4)
    path.write_bytes(b"")
    with pytest.raises(MexmaError, match="is empty"):
        open_raw(path, 4)
    path.write_bytes(b"\0" * 24)
    with pytest.raises(
        MexmaError, match=r"24 bytes, no whole number of rows of 4 x float32 \(16 bytes each\)"
    ):
        open_raw(path, 4)
    assert open_raw(path, 4, "float16").shape == (3, 4)
    with pytest.raises(MexmaError, match="is a folder"):
        open_raw(tmp_path, 4)


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
    (tmp_path / "v").write_bytes(npy_header(2, 3, "float32") + to_raw(vectors))
    np.testing.assert_array_equal(np.load(tmp_path / "v"), vectors)
