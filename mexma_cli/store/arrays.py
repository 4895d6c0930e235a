"""NumPy's .npy files that grow row by row, in constant memory."""

from __future__ import annotations

import os
from typing import IO

import numpy as np


class ArrayWriter:
    """A one- or two-dimensional ``.npy`` file that grows row by row, in constant memory.

    Args:
        file: An open binary file at its start.
        dtype: Type of the values as stored.
        width: Columns, or None for a flat array.
    """

    HEADER = 128
    """Bytes before the data; fixed, so that it can be written again when the number of rows is known."""

    def __init__(self, file: IO[bytes], dtype: str, width: int | None = None) -> None:
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
        entries = {"descr": self._dtype.str, "fortran_order": False, "shape": shape}
        text = repr(entries).ljust(self.HEADER - 11) + "\n"
        self._file.write(b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode("ascii"))


def file_size(rows: int, dtype: str, width: int | None = None) -> int:
    """Bytes of a file that `ArrayWriter` wrote."""
    return ArrayWriter.HEADER + rows * (1 if width is None else width) * np.dtype(dtype).itemsize
