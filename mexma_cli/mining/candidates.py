"""Pairs with their scores: in memory, in temporary files, and sorted best first."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from mexma_cli.store.spool import Spool, Table
from mexma_cli.text.amounts import brief

PAIR = np.dtype([("scores", "<f4"), ("source", "<i8"), ("target", "<i8"), ("cosines", "<f4")])
"""A pair in a temporary file."""


@dataclass(frozen=True)
class Candidates:
    """Pairs: `scores` float32 [n], `source` and `target` int64 [n], and their `cosines` float32 [n].

    From `match` they come best first, sorted by (score descending, source row, target row), memory-mapped.
    """

    scores: np.ndarray
    source: np.ndarray
    target: np.ndarray
    cosines: np.ndarray

    __repr__ = brief

    def __len__(self) -> int:
        return len(self.scores)

    @classmethod
    def of(cls, records: np.ndarray) -> Candidates:
        """The pairs of some records, `PAIR` [n]."""
        return cls(*(records[name] for name in PAIR.names or ()))

    @property
    def records(self) -> np.ndarray:
        """A record for each pair, `PAIR` [n]."""
        found = np.empty(len(self), PAIR)
        for name in PAIR.names or ():
            found[name] = getattr(self, name)
        return found

    def take(self, chosen: np.ndarray | slice) -> Candidates:
        """The candidates at some places (int), or where a mask (bool [n]) says so."""
        return Candidates(*(getattr(self, name)[chosen] for name in PAIR.names or ()))

    def turned(self) -> Candidates:
        """The pairs with source and target exchanged."""
        return replace(self, source=self.target, target=self.source)

    def mapped(self, rows: tuple[np.ndarray, np.ndarray]) -> Candidates:
        """The pairs of other rows that stand for theirs: int64 [N] and [M]."""
        return replace(self, source=rows[0][self.source], target=rows[1][self.target])

    def count_above(self, threshold: float) -> int:
        """How many have a score greater than the threshold; they are sorted best first."""
        return bisect_left(range(len(self)), True, key=lambda place: float(self.scores[place]) <= threshold)


def best_first(pairs: Candidates) -> Candidates:
    """The pairs sorted by (score descending, source row, target row)."""
    return pairs.take(np.lexsort((pairs.target, pairs.source, -pairs.scores)))


class SortedPairs:
    """Pairs that come in any order, and are read back best first; many are sorted on disk."""

    def __init__(self) -> None:
        self._table = Table(PAIR, "-scores", "source", "target")

    def add(self, pairs: Candidates) -> None:
        """Add pairs."""
        self._table.append(**{name: getattr(pairs, name) for name in PAIR.names or ()})

    def merged(self) -> Iterator[Candidates]:
        """All pairs, in blocks; once."""
        yield from map(Candidates.of, self._table.sorted())


def spooled_pairs(blocks: Iterable[Candidates]) -> Candidates:
    """All pairs of some blocks, memory-mapped from a temporary file."""
    spool = Spool(PAIR)
    for pairs in blocks:
        spool.write(pairs.records)
    return Candidates.of(spool.array())
