"""Arrays and tables in temporary files: appended to in any order, and read in blocks, sorted if need be; rows
of different lengths in one array."""

from __future__ import annotations

import os
import tempfile
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from mexma_cli.files import temporary_space

BUFFER = 16 << 20
"""Bytes of records that a table has in memory; four times that while it sorts them."""
HASHED = np.dtype([("hash", "<u8"), ("row", "<i8")])
"""A hash, and the row that has it."""
_SPAN = 1 << 20  # values that are scattered together
GATHERED = 1 << 24
"""Values that are looked up together."""

Value = TypeVar("Value")


def slices_of(count: int, at_once: int) -> Iterator[slice]:
    """Slices of `count` values, each of as many as may be in memory `at_once`."""
    for start in range(0, count, at_once):
        yield slice(start, min(start + at_once, count))


class _Temporary:
    """What has a temporary file, `_file`: a pickled copy has one of its own, with the same bytes."""

    _file: Any

    def __getstate__(self) -> dict[str, Any]:
        self._file.seek(0)
        return self.__dict__ | {"_file": self._file.read()}  # and the next bytes are written behind these

    def __setstate__(self, state: dict[str, Any]) -> None:
        held = state.pop("_file")
        self.__dict__ = state
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as this object
        with temporary_space():
            self._file.write(held)
            self._file.flush()


class Spool(_Temporary):
    """A flat array, perhaps structured, in a temporary file, which is appended to and read back. A full disk
    is a message; that of a given `folder` is an OSError."""

    def __init__(self, dtype: Any, folder: Path | None = None) -> None:
        self._dtype, self.rows = np.dtype(dtype), 0
        self._full = nullcontext if folder else temporary_space
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - lives as long as this object

    def write(self, values: np.ndarray) -> None:
        """Append values [n], cast to the spool's type."""
        with self._full():
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


class TextSpool(_Temporary):
    """Strings, one behind the other in a temporary file. A full disk is a message."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as this object

    def write(self, texts: Iterable[str]) -> np.ndarray:
        """Append strings, and say how many bytes each of them takes, int64 [n]."""
        held = [text.encode("utf-8") for text in texts]
        with temporary_space():
            self._file.write(b"".join(held))
            self._file.flush()
        return np.fromiter(map(len, held), np.int64, len(held))

    def read(self, ends: np.ndarray, sizes: np.ndarray) -> list[str]:
        """The strings that end at some places in the file, [n], and take so many bytes, [n]."""
        file, spans = self._file.fileno(), zip(ends.tolist(), sizes.tolist(), strict=True)
        return [os.pread(file, size, end - size).decode("utf-8") for end, size in spans]


class Table:
    """Records in any order, read back sorted. Up to `BUFFER` bytes of them are in memory; more are sorted in
    runs in a temporary file, and the runs are merged. A full disk is as for `Spool`.

    Args:
        dtype: Of the records, structured.
        keys: Fields to sort by, the most significant first; `-name` sorts falling. Of records with equal keys
            those that came first stay first.
        together: Records in which so many of the first keys are equal come in one block, however many.
        folder: Of the temporary file.
    """

    def __init__(self, dtype: Any, *keys: str, together: int = 0, folder: Path | None = None) -> None:
        self._dtype, self._keys = np.dtype(dtype), keys
        self._whole = keys[: together or len(keys)]
        self._runs, self._ends = Spool(dtype, folder), [0]
        self._held, self._size = [np.empty(0, self._dtype)], 0

    def append(self, **columns: Any) -> None:
        """Append records, whose fields are arrays [n] or, for all of them, one value."""
        records = np.empty(np.broadcast(*columns.values()).size, self._dtype)
        for name, values in columns.items():
            records[name] = values
        self._held.append(records)
        self._size += records.nbytes
        if self._size >= BUFFER:
            self._end_run()

    def sorted(self) -> Iterator[np.ndarray]:
        """All records, in blocks, none of them empty; once."""
        if not self._runs.rows:
            if self._size:
                yield self._in_order(self._held)
            return
        self._end_run()
        places, ends = self._ends[:-1], self._ends[1:]
        held, step = [self._held[0]] * len(places), max(1, BUFFER // self._dtype.itemsize // len(places))
        while True:
            for run, end in enumerate(ends):
                if (stop := min(places[run] + step - len(held[run]), end)) > places[run]:
                    held[run] = np.concatenate([held[run], self._runs.read(places[run], stop)])
                    places[run] = stop
            # A run that has more on the disk may go on with the keys of its last record here.
            last = [
                self._place(part[-1])
                for part, place, end in zip(held, places, ends, strict=True)
                if place < end
            ]
            counts = [bisect_left(part, min(last), key=self._place) if last else len(part) for part in held]
            if any(counts):
                yield self._in_order([part[:count] for part, count in zip(held, counts, strict=True)])
                held = [part[count:] for part, count in zip(held, counts, strict=True)]
            elif last:
                step *= 2
            else:
                return

    def below(self, borders: Iterable[int]) -> Iterator[np.ndarray]:
        """The records whose first key is below each border and not below the one before; once."""
        blocks, held = self.sorted(), self._held[0]
        for border in borders:
            found = [held]
            while not len(found[-1]) or found[-1][self._keys[0]][-1] < border:
                if (block := next(blocks, None)) is None:
                    break
                found.append(block)
            held = np.concatenate(found) if len(found) > 1 else held
            count = int(np.searchsorted(held[self._keys[0]], border))
            yield held[:count]
            held = held[count:]

    def _end_run(self) -> None:
        self._runs.write(self._in_order(self._held))
        self._ends.append(self._runs.rows)
        self._held, self._size = self._held[:1], 0

    def _in_order(self, parts: list[np.ndarray]) -> np.ndarray:
        records = np.concatenate(parts)
        columns = [-records[key[1:]] if key[0] == "-" else records[key] for key in self._keys[::-1]]
        return records[np.lexsort(columns)]

    def _place(self, record: np.void) -> tuple[Any, ...]:
        return tuple(-record[key[1:]] if key[0] == "-" else record[key] for key in self._whole)


def repeats(records: np.ndarray, *keys: str) -> np.ndarray:
    """bool [n], whether a record has the same keys as the one before; the first one has not."""
    found = np.ones(len(records), dtype=bool)
    found[:1] = False
    for key in keys:
        found[1:] &= records[key][1:] == records[key][:-1]
    return found


def distinct(values: np.ndarray) -> np.ndarray:
    """The different values of an array [n], ascending: `np.unique` hashes them, which takes longer."""
    found = np.sort(values)
    new = np.ones(len(found), bool)
    new[1:] = found[1:] != found[:-1]
    return found[new]


def bytes_to_sort(rows: int, dtype: Any) -> int:
    """Bytes of memory that a `Table` of so many records takes at most."""
    return 4 * min(BUFFER, rows * np.dtype(dtype).itemsize)


def scattered(
    count: int, dtype: Any, default: Any, values: Iterable[tuple[np.ndarray, np.ndarray]]
) -> np.ndarray:
    """A flat array of `count` values that come in any order, memory-mapped from a temporary file, with
    `default` where there is none; `values` are places, int [n], and their values, [n], of which the last one
    for a place stays."""
    table, found = Table([("place", "<i8"), ("value", dtype)], "place"), Spool(dtype)
    for places, some in values:
        table.append(place=places, value=some)
    spans = list(slices_of(count, _SPAN))
    for span, records in zip(spans, table.below(span.stop for span in spans), strict=True):
        part = np.full(span.stop - span.start, default, dtype)
        part[records["place"] - span.start] = records["value"]
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


def flat(rows: Iterable[Sequence[Value]]) -> tuple[list[Value], np.ndarray]:
    """The values of all rows, one row after the other, and how many each has, int64 [rows]."""
    held = list(rows)
    return list(chain.from_iterable(held)), np.fromiter(map(len, held), np.int64, len(held))


@dataclass(frozen=True)
class Ragged:
    """So many values of each of N rows, one behind the other: those of row n end at `ends[n + 1]`."""

    values: np.ndarray
    ends: np.ndarray

    def counts(self, rows: np.ndarray) -> np.ndarray:
        """How many values some rows have, int64 [n]."""
        return self.ends[rows + 1] - self.ends[rows]

    def at(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The values of some rows, int64 [n], one row after the other; and for each the place of its row
        among these."""
        counts = self.counts(rows)
        owner = np.repeat(np.arange(len(rows)), counts)
        within = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
        return self.values[self.ends[rows][owner] + within], owner


class RaggedSpool:
    """Rows of different lengths that are appended to temporary files."""

    def __init__(self, dtype: Any) -> None:
        self._values, self._ends = Spool(dtype), Spool(np.int64)
        self._ends.write(np.zeros(1, np.int64))

    def write(self, values: Sequence[int] | np.ndarray, counts: np.ndarray) -> None:
        """Append rows, as `flat` has them."""
        start = self._values.rows
        self._values.write(np.asarray(values, np.int64))
        self._ends.write(start + np.cumsum(counts))

    @property
    def rows(self) -> int:
        """Rows so far."""
        return self._ends.rows - 1

    def ragged(self) -> Ragged:
        """The values of all rows, memory-mapped."""
        return Ragged(self._values.array(), self._ends.array())
