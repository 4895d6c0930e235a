"""Pairs with their scores: in memory, in temporary files, and sorted best first."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from mexma_cli.store.spool import Spool

_BUFFERED = 1 << 23  # pairs that are in memory together: 200 MB, three times that while they are sorted
PAIR = np.dtype([("scores", "<f4"), ("source", "<i8"), ("target", "<i8"), ("cosines", "<f4")])
"""A pair in a temporary file."""


@dataclass(frozen=True)
class Candidates:
    """Pairs: `scores` float32 [n], `source` and `target` int64 [n], and their `cosines` float32 [n].

    From `match` they come best first, sorted by (score descending, source row, target row), memory-mapped;
    `below` is the number of pairs that its threshold dropped.
    """

    scores: np.ndarray
    source: np.ndarray
    target: np.ndarray
    cosines: np.ndarray
    below: int = field(default=0, kw_only=True)

    def __len__(self) -> int:
        return len(self.scores)

    def take(self, chosen: np.ndarray | slice) -> Candidates:
        """Those at some places (int), or where a mask (bool [n]) says so."""
        return Candidates(*(getattr(self, name)[chosen] for name in PAIR.names or ()), below=self.below)

    def turned(self) -> Candidates:
        """The same pairs with source and target exchanged."""
        return replace(self, source=self.target, target=self.source)

    def mapped(self, rows: tuple[np.ndarray, np.ndarray]) -> Candidates:
        """The same pairs, of other rows that stand for theirs: int64 [N] and [M]."""
        return replace(self, source=rows[0][self.source], target=rows[1][self.target])

    def cut(self, retrieval: str, threshold: float | None) -> Candidates:
        """Those, sorted best first, that the threshold keeps, see `match`."""
        if threshold is None and retrieval != "max":
            return self
        above = self.count_above(threshold or 0.0)
        return replace(self.take(slice(above)), below=self.below + len(self) - above)

    def count_above(self, threshold: float) -> int:
        """How many have a score greater than the threshold; they are sorted best first."""
        return bisect_left(range(len(self)), True, key=lambda place: float(self.scores[place]) <= threshold)

    def above(self, threshold: float) -> Candidates:
        """Those whose score is greater than the threshold."""
        found = self.take(self.scores.astype(np.float64) > threshold)
        return replace(found, below=self.below + len(self) - len(found))


def best_first(pairs: Candidates) -> Candidates:
    """The pairs sorted by (score descending, source row, target row)."""
    return pairs.take(np.lexsort((pairs.target, pairs.source, -pairs.scores)))


def bytes_to_sort(pairs: int) -> tuple[int, int]:
    """Bytes of memory that `SortedPairs` takes for so many pairs: while they are added, and at the end."""
    held = PAIR.itemsize * min(_BUFFERED, pairs)
    return held, 3 * held


class PairSpool:
    """Pairs in a temporary file."""

    def __init__(self) -> None:
        self._spool = Spool(PAIR)

    def write(self, pairs: Candidates) -> None:
        """Append pairs."""
        self._spool.write(_records(pairs))

    def pairs(self) -> Candidates:
        """All of them, memory-mapped."""
        return _candidates(self._spool.array())


class SortedPairs:
    """Pairs that come in any order, and are read back best first; many are sorted in parts, on disk.

    Raises:
        MexmaError: The temporary disk is full.
    """

    def __init__(self) -> None:
        self._spool, self._ends = Spool(PAIR), [0]
        self._held: list[Candidates] = []

    def add(self, pairs: Candidates) -> None:
        """Add pairs."""
        self._held.append(pairs)
        if sum(map(len, self._held)) >= _BUFFERED:
            self._spool.write(_records(self._sorted()))
            self._ends.append(self._spool.rows)

    def merged(self) -> Iterator[Candidates]:
        """All pairs, in blocks; once."""
        last = self._sorted()
        if not self._spool.rows:
            yield last
            return
        self._spool.write(_records(last))
        places, ends = self._ends, [*self._ends[1:], self._spool.rows]
        step = max(1, _BUFFERED // len(ends))
        held = [np.empty(0, PAIR) for _ in ends]
        while True:
            for run, end in enumerate(ends):
                if not len(held[run]):
                    stop = min(places[run] + step, end)
                    held[run], places[run] = self._spool.read(places[run], stop), stop
            # What is better than the last pair of each run that has more on the disk is known to the end.
            open_ends = [
                _key(part[-1]) for part, place, end in zip(held, places, ends, strict=True) if place < end
            ]
            counts = [_up_to(part, min(open_ends)) if open_ends else len(part) for part in held]
            if not sum(counts):
                return
            some = np.concatenate([part[:count] for part, count in zip(held, counts, strict=True)])
            held = [part[count:] for part, count in zip(held, counts, strict=True)]
            yield best_first(_candidates(some))

    def _sorted(self) -> Candidates:
        """What is held, sorted; then nothing is."""
        held, self._held = [_candidates(np.empty(0, PAIR)), *self._held], []
        columns = (np.concatenate([getattr(pairs, name) for pairs in held]) for name in PAIR.names or ())
        return best_first(Candidates(*columns))


def _key(record: np.void) -> tuple[float, int, int]:
    """What pairs are sorted by."""
    return -float(record["scores"]), int(record["source"]), int(record["target"])


def _up_to(records: np.ndarray, last: tuple[float, int, int]) -> int:
    """How many of some sorted pairs do not come after one."""
    falling = -records["scores"]
    start, stop = (int(np.searchsorted(falling, np.float32(last[0]), side)) for side in ("left", "right"))
    source, target = records["source"][start:stop], records["target"][start:stop]
    return start + int(((source < last[1]) | ((source == last[1]) & (target <= last[2]))).sum())


def _records(pairs: Candidates) -> np.ndarray:
    records = np.empty(len(pairs), PAIR)
    for name in PAIR.names or ():
        records[name] = getattr(pairs, name)
    return records


def _candidates(records: np.ndarray) -> Candidates:
    return Candidates(*(records[name] for name in PAIR.names or ()))
