"""Lists of neighbours, in memory or in files, that are read some rows at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from mexma_cli.knn.neighbours import Neighbours
from mexma_cli.mining.margin import mean_of
from mexma_cli.store.spool import Spool, slices_of

BLOCK_ROWS = 1 << 21
"""Rows whose neighbours are looked at together: about 400 MB with temporary arrays for a k of 4."""


class Lists(Protocol):
    """The neighbours of the rows of a side, wherever they are."""

    @property
    def count(self) -> int:
        """Rows."""

    def at(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Cosines float32 and rows of the other side int64, both [n, k], of some rows, int64 [n]; as
        `knn.neighbours.Neighbours` has them."""


Sides = tuple[Lists, Lists]
"""The lists of the rows of source and of target."""


@dataclass(frozen=True)
class ListsInMemory:
    """Neighbours (`Lists`) in arrays [rows, k], which may be memory-mapped."""

    cosines: np.ndarray
    ids: np.ndarray

    @property
    def count(self) -> int:
        """See `Lists`."""
        return len(self.ids)

    def at(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """See `Lists`."""
        return self.cosines[rows], self.ids[rows]


def sides_of(found: Neighbours | Sides) -> Sides:
    """Neighbours as lists of either side."""
    if not isinstance(found, Neighbours):
        return found
    return (
        ListsInMemory(found.forward_scores, found.forward_ids),
        ListsInMemory(found.backward_scores, found.backward_ids),
    )


@dataclass(frozen=True)
class OtherNeighbours:
    """Neighbours (`Lists`) of each row of a text in the same text: the k nearest without the row itself."""

    lists: Lists
    k: int

    @property
    def count(self) -> int:
        """See `Lists`."""
        return self.lists.count

    def at(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """See `Lists`."""
        cosines, ids = self.lists.at(rows)
        k = max(0, min(self.k, ids.shape[1] - 1))
        after = np.cumsum(ids[:, :k] == rows[:, None], axis=1)  # 1 from the row's own place on
        places = np.arange(k) + after
        return np.take_along_axis(cosines, places, 1), np.take_along_axis(ids, places, 1)


def others(neighbours: Neighbours | Sides, k: int) -> Sides:
    """The k nearest others of every row of a text that is searched in itself; both sides are alike.

    Args:
        neighbours: k + 1 of the rows of a text in the same text, where each may find itself.
    """
    side = OtherNeighbours(sides_of(neighbours)[0], k)
    return side, side


def take_part(ids: np.ndarray) -> np.ndarray:
    """bool [n]: rows with neighbours, ids [n, k], have taken part in the search."""
    return np.asarray((ids[:, :1] >= 0).any(axis=1))


def means_of(side: Lists) -> np.ndarray:
    """Mean cosine of every row's neighbours, float32 [rows], memory-mapped; 0 for rows that were left out."""
    spool = Spool(np.float32)
    for rows in row_blocks(side.count, BLOCK_ROWS):
        spool.write(mean_of(*side.at(rows)))
    return spool.array()


def slices(count: int) -> Iterator[slice]:
    """Slices of `count` pairs, or rows, in blocks of `BLOCK_ROWS`."""
    return slices_of(count, BLOCK_ROWS)


def row_blocks(count: int, at_once: int) -> Iterator[np.ndarray]:
    """The numbers of `count` rows, int64, so many at a time."""
    for part in slices_of(count, at_once):
        yield np.arange(part.start, part.stop)
