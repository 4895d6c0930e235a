"""Sums of some rows of a matrix: bags of embeddings, in NumPy."""

from __future__ import annotations

import numpy as np

from mexma_cli.numerics.threads import in_slices

_BAGS = 1 << 6  # whose rows are in memory at a time: they stay in the processor's cache


def sums(rows: np.ndarray, places: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The sum of each bag's rows, in their order: float64 [bags, width], zeros for an empty bag.

    Args:
        rows: float [R, width].
        places: int64 [T], rows of the bags, one bag after the other.
        counts: int64 [bags], how many each has.
    """
    found = np.zeros((len(counts), rows.shape[1]))
    filled = np.flatnonzero(counts)
    ends = np.cumsum(counts)[filled]
    starts = ends - counts[filled]

    def add(begin: int, end: int) -> None:
        for at in range(begin, end, _BAGS):
            own = slice(at, min(at + _BAGS, end))
            first = starts[at]
            chosen = rows[places[first : ends[own][-1]]].astype(np.float64, copy=False)
            found[filled[own]] = np.add.reduceat(chosen, starts[own] - first, axis=0)

    in_slices(len(filled), add, places.size * rows.shape[1])
    return found
