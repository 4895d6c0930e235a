"""NumPy's .npy files that grow row by row, in constant memory, and arrays that are mapped from files;
vectors as they are stored: float16, float32, or int8 with a scale for each row."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np

from mexma_cli.errors import MexmaError
from mexma_cli.files import checksum_file

# Not a parameter: nine functions from `mine` to the files of its encoder would take it.
_comparing = True
_SCALE, _VALUES = "scale", "values"
_DROPPED = 0xFF
"""Bits of a scale that are zeros: 127 times a scale is exact, so that what was read is stored as it was."""


class ArrayWriter:
    """A one- or two-dimensional ``.npy`` file that grows row by row, in constant memory, from an open binary
    file at its start. The type may be of records; the width is None for a flat array."""

    HEADER = 128
    """Bytes before the data; fixed, so that it can be written again when the number of rows is known."""

    def __init__(self, file: IO[bytes], dtype: Any, width: int | None = None) -> None:
        self._file, self._dtype, self._width = file, np.dtype(dtype), width
        self.rows = 0
        self._write_header()

    def write(self, values: np.ndarray) -> None:
        """Append rows; `values` is [n] or [n, width] and is cast to the file's type."""
        assert values.shape[1:] == (() if self._width is None else (self._width,)), values.shape
        self._file.write(np.ascontiguousarray(values, dtype=self._dtype).data)
        self.rows += len(values)

    def close(self) -> None:
        """Write the number of rows; the file itself stays open."""
        self._file.seek(0)
        self._write_header()
        self._file.seek(0, os.SEEK_END)

    def _write_header(self) -> None:
        shape = (self.rows,) if self._width is None else (self.rows, self._width)
        entries = {"descr": np.lib.format.dtype_to_descr(self._dtype), "fortran_order": False, "shape": shape}
        text = repr(entries).ljust(self.HEADER - 11) + "\n"
        self._file.write(b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode("ascii"))


def file_size(rows: int, dtype: Any, width: int | None = None) -> int:
    """Bytes of a file that `ArrayWriter` wrote."""
    return ArrayWriter.HEADER + rows * (1 if width is None else width) * np.dtype(dtype).itemsize


def check_is_file(path: Path, hint: str) -> None:
    """Refuse a file of a store that is missing, or is a link: that may lead out of the store."""
    if path.is_symlink():
        raise MexmaError(f"{path} is a link, and a store holds its files itself", hint)
    if not path.is_file():
        raise MexmaError(f"{path} is missing: the store is not complete", hint)


def check_size(path: Path, wanted: int, hint: str) -> None:
    """Refuse a file that `check_is_file` refuses, or is not `wanted` bytes long."""
    check_is_file(path, hint)
    if (found := path.stat().st_size) != wanted:
        raise MexmaError(f"{path} is damaged: {found:,} bytes instead of {wanted:,}", hint)


def check_content(path: Path, checksum: str, hint: str) -> None:
    """Refuse a file that is missing, or whose xxh3_128 is not `checksum`."""
    if not path.is_file():
        raise MexmaError(f"{path} is missing", hint)
    if _comparing and checksum_file(path) != checksum:
        raise MexmaError(f"{path} is damaged: its checksum is not the manifest's", hint)


@contextmanager
def unverified() -> Iterator[None]:
    """Compare no checksums while the block runs: files are believed to be whole if their length is right."""
    global _comparing
    _comparing = False
    try:
        yield
    finally:
        _comparing = True


def load_array(path: Path, mode: Literal["r"] | None = None) -> np.ndarray:
    """The array in NumPy's file, read or (`r`) memory-mapped. A ValueError says that it is no such file:
    damaged headers make NumPy raise any kind of exception."""
    try:
        with np.errstate(over="ignore"):  # impossible sizes
            array: np.ndarray = np.load(path, mmap_mode=mode, allow_pickle=False)
    except (OSError, MemoryError):
        raise
    except Exception as error:
        raise ValueError(" ".join(str(error).split()) or type(error).__name__) from None
    return array


def mapped(path: Path, shape: tuple[int, ...], dtype: Any, hint: str) -> np.ndarray:
    """The array in a file, memory-mapped; refused if it is not of this shape and type, row after row."""
    try:
        # An empty file cannot be mapped.
        array = load_array(path, "r" if all(shape) else None)
    except ValueError as error:
        raise MexmaError(f"{path} is damaged ({error})", hint) from None
    if array.shape != shape or array.dtype != np.dtype(dtype) or not array.flags.c_contiguous:
        order = "" if array.flags.c_contiguous else ", column after column"
        said = f"{array.dtype} {array.shape}{order}, the manifest says {dtype} {shape}"
        raise MexmaError(f"{path} is damaged: {said}", hint)
    return array


def new_mapped(path: Path, dtype: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Zeros in a new file, memory-mapped to be changed. The file takes its space now (an OSError says that
    there is none): a write into a mapped page that finds the disk full ends the process."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    with path.open("wb") as file:
        if not size:  # cannot be mapped
            return np.zeros(shape, dtype)
        os.posix_fallocate(file.fileno(), 0, size)
    return np.memmap(path, dtype, "r+", shape=shape)


def read_array_rows(
    path: Path, dtype: Any, width: int | None, rows: tuple[int, int], hint: str
) -> np.ndarray:
    """Rows `rows[0]` to `rows[1]` of an `ArrayWriter`'s file, [n, width], or [n] of a flat array; a file that
    has become shorter is refused.

    They are read, not mapped: mapped pages count as this process's memory, and a mapped file that is cut
    short ends the process.
    """
    count = (rows[1] - rows[0]) * (1 if width is None else width)
    values = np.fromfile(path, dtype, count, offset=file_size(rows[0], dtype, width))
    if len(values) != count:
        raise cut_short(path, hint)
    return values if width is None else values.reshape(rows[1] - rows[0], width)


def cut_short(path: Path, hint: str) -> MexmaError:
    """The error of a file that had its full length when it was opened."""
    return MexmaError(f"{path} is damaged: it was cut short while it was read", hint)


def file_type(dtype: str, dim: int) -> tuple[np.dtype[Any], int | None]:
    """The type of the array in a file of vectors, and its columns; None: a record a row.

    Args:
        dtype: `float16`, `float32`, or `int8`, records of `scale`, float32, and `values`, int8 [dim].
    """
    if dtype == "int8":
        return np.dtype([(_SCALE, "<f4"), (_VALUES, "i1", (dim,))]), None
    return np.dtype(dtype), dim


def as_stored(vectors: np.ndarray, dtype: str) -> np.ndarray:
    """Vectors, float [n, dim], as they are stored. int8: 127 stands for the largest number of a row."""
    if dtype != "int8":
        with np.errstate(over="ignore"):
            return np.asarray(vectors).astype(dtype)
    vectors = np.asarray(vectors, np.float32)
    found = np.zeros(len(vectors), file_type(dtype, vectors.shape[1])[0])
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        scales = np.abs(vectors).max(axis=1, initial=0) / np.float32(127)
        bits = scales.view(np.uint32)
        scales = ((bits + np.uint32(_DROPPED)) & ~np.uint32(_DROPPED)).view(np.float32)
        values = np.rint(vectors / np.where(scales > 0, scales, 1)[:, None])
    found[_SCALE], found[_VALUES] = scales, np.nan_to_num(values)
    return found


def as_vectors(rows: np.ndarray) -> np.ndarray:
    """Vectors, float32 [n, dim], of what is stored."""
    if rows.dtype.names is None:
        return rows.astype(np.float32)
    found: np.ndarray = rows[_VALUES] * rows[_SCALE][:, None]
    return found


def fits(vectors: np.ndarray, stored: np.ndarray) -> np.ndarray:
    """Whether each vector is a number in the type that it is stored in, and is not lost: bool [n]."""
    if stored.dtype.names is None:
        good: np.ndarray = np.all(np.isfinite(stored), axis=1)
        if stored.dtype == np.float16:
            good &= np.any(stored, axis=1) | ~np.any(vectors, axis=1)
        return good
    kept = stored[_VALUES].any(axis=1) | ~np.asarray(vectors).any(axis=1)
    return kept & np.isfinite(stored[_SCALE]) & np.isfinite(vectors).all(axis=1)
