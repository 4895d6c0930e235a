"""Sums of some rows of a matrix: bags of embeddings, in NumPy."""

from __future__ import annotations

import numpy as np

from mexma_cli.numerics.threads import in_slices

_BAGS = 1 << 8  # whose sums are made together: they stay in the processor's cache


def sums(rows: np.ndarray, places: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The sum of each bag's rows, in their order: float64 [bags, width], zeros for an empty bag.

    Args:
        rows: float [R, width].
        places: int64 [T], rows of the bags, one bag after the other.
        counts: int64 [bags], how many each has.
    """
    found = np.zeros((len(counts), rows.shape[1]))
    filled = np.flatnonzero(counts)
    starts = (np.cumsum(counts) - counts)[filled]

    def add(begin: int, end: int) -> None:
        for at in range(begin, end, _BAGS):
            own = filled[at : min(at + _BAGS, end)]
            longest_first = np.argsort(-counts[own], kind="stable")
            sizes, first = counts[own[longest_first]], starts[at : at + len(own)][longest_first]
            total = rows[places[first]].astype(np.float64)
            for place in range(1, sizes[0]):
                longer = int(np.count_nonzero(sizes > place))
                total[:longer] += rows[places[first[:longer] + place]]
            found[own[longest_first]] = total

    in_slices(len(filled), add, places.size * rows.shape[1])
    return found
