"""Arrays in temporary files: appended to, parted into buckets, and read back in blocks."""

from __future__ import annotations

import os
import tempfile
from itertools import pairwise
from typing import Any

import numpy as np

from mexma_cli.text.temporary import temporary_space


class Spool:
    """A flat array in a temporary file, which is appended to and read back.

    Args:
        dtype: Of the array, perhaps structured.

    Raises:
        MexmaError: `write` finds the temporary disk full.
    """

    def __init__(self, dtype: Any) -> None:
        self._dtype, self.rows = np.dtype(dtype), 0
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as this object

    def write(self, values: np.ndarray) -> None:
        """Append values [n], cast to the spool's type."""
        with temporary_space():
            self._file.write(np.ascontiguousarray(values, dtype=self._dtype).data)
            self._file.flush()
        self.rows += len(values)

    def read(self, start: int, stop: int) -> np.ndarray:
        """The values from `start` up to `stop`."""
        size = self._dtype.itemsize
        held = os.pread(self._file.fileno(), (stop - start) * size, start * size)
        return np.frombuffer(held, self._dtype)

    def array(self) -> np.ndarray:
        """All values, memory-mapped: nobody else can cut the file short."""
        if not self.rows:
            return np.empty(0, self._dtype)
        return np.memmap(self._file, self._dtype, "r", shape=(self.rows,))


class Buckets:
    """Records that are put into so many spools by number, each to be read back as one array."""

    def __init__(self, count: int, dtype: Any) -> None:
        self._spools = [Spool(dtype) for _ in range(count)]

    def add(self, numbers: np.ndarray, records: np.ndarray) -> None:
        """Append records [n] to the buckets that `numbers`, int [n], name."""
        order = np.argsort(numbers, kind="stable")
        borders = np.searchsorted(numbers[order], np.arange(len(self._spools) + 1)).tolist()
        for spool, (start, stop) in zip(self._spools, pairwise(borders), strict=True):
            if start < stop:
                spool.write(records[order[start:stop]])

    def read(self, number: int) -> np.ndarray:
        """The records of a bucket, in the order in which they came."""
        return self._spools[number].read(0, self._spools[number].rows)
