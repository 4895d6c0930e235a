"""Arrays in temporary files: appended to, parted into buckets, filled in any order, and read in blocks."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from mexma_cli.text.temporary import temporary_space

_BUCKETS = 100  # at most, since a process may have 1024 files open
_SPAN = 1 << 20  # values of a bucket, if there are not more than `_BUCKETS` of them
GATHERED = 1 << 24
"""Values that are looked up together."""


def parts(count: int, at_once: int) -> Iterator[slice]:
    """Places of `count` values in parts that may be in memory."""
    for start in range(0, count, at_once):
        yield slice(start, min(start + at_once, count))


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
        self.count, self._spools = count, [Spool(dtype) for _ in range(count)]

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


class Scattered:
    """A flat array in temporary files whose values come in any order.

    Takes little memory, however long it is: what comes is put into buckets of places that follow one another.

    Args:
        count: Its length.
        default: Where no value was put.
    """

    def __init__(self, count: int, dtype: Any, default: Any) -> None:
        self._count, self._default = count, default
        self._span = max(_SPAN, -(-count // _BUCKETS))
        self._record = np.dtype([("place", "<i8"), ("value", dtype)])
        self._buckets = Buckets(-(-count // self._span), self._record)

    def put(self, places: np.ndarray, values: np.ndarray) -> None:
        """Put values [n] at places, int [n]; of several for a place the last one stays.

        Raises:
            MexmaError: The temporary disk is full.
        """
        records = np.empty(len(places), self._record)
        records["place"], records["value"] = places, values
        self._buckets.add(records["place"] // self._span, records)

    def array(self) -> np.ndarray:
        """All values, memory-mapped."""
        found = Spool(self._record["value"])
        for number, start in enumerate(range(0, self._count, self._span)):
            part = np.full(min(self._span, self._count - start), self._default, self._record["value"])
            records = self._buckets.read(number)
            part[records["place"] - start] = records["value"]
            found.write(part)
        return found.array()


def gathered(values: np.ndarray, places: np.ndarray) -> np.ndarray:
    """The values at places, int64 of any shape; at -1 anything. They are read in order, for they may be
    memory-mapped."""
    if len(values) <= GATHERED:
        return np.array(values)[places]
    found = np.zeros(places.shape, values.dtype)
    for start in range(0, len(values), GATHERED):
        part = np.array(values[start : start + GATHERED])
        inside = (places >= start) & (places < start + len(part))
        found[inside] = part[places[inside] - start]
    return found
