"""Sums of some rows of a matrix: bags of embeddings, in NumPy, and in compiled loops where there are many."""

from __future__ import annotations

import numpy as np

from mexma_cli.numerics.quantised import QuantisedRows
from mexma_cli.numerics.threads import in_slices

_BAGS = 1 << 8  # whose sums are made together: they stay in the processor's cache
LOOPS_FROM = 1 << 27
"""Numbers that a process adds before it pays to load compiled loops."""
_added = 0


def sums(rows: np.ndarray | QuantisedRows, places: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The sum of each bag's rows, in their order: float64 [bags, width], zeros for an empty bag.

    Args:
        rows: float [R, width], or the same quantised.
        places: int64 [T], rows of the bags, one bag after the other.
        counts: int64 [bags], how many each has.
    """
    global _added
    work = places.size * rows.shape[1]
    is_half = isinstance(rows, np.ndarray) and rows.dtype == np.float16  # which Numba does not know
    if not is_half:
        _added += work
        if _added >= LOOPS_FROM:
            return _looped(rows, places, counts, work)
    if isinstance(rows, QuantisedRows):
        used, places = np.unique(places, return_inverse=True)
        rows = rows[used]
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

    in_slices(len(filled), add, work)
    return found


def _looped(
    rows: np.ndarray | QuantisedRows, places: np.ndarray, counts: np.ndarray, work: int
) -> np.ndarray:
    """Compute `sums` by compiled loops."""
    from mexma_cli.numerics import bag_loops

    width, starts = rows.shape[1], np.cumsum([0, *counts])
    if isinstance(rows, QuantisedRows):
        coded, width = (rows.codes, rows.codebook), rows.codes.shape[1] * rows.codebook.shape[1]
        lengths = rows.lengths[places].astype(np.float32)
    found = np.zeros((len(counts), width))

    def add(begin: int, end: int) -> None:
        own, some = starts[begin : end + 1], found[begin:end]
        if isinstance(rows, QuantisedRows):
            bag_loops.add_coded(coded, (places, lengths), own, some)
        else:
            bag_loops.add(rows, places, own, some)

    in_slices(len(counts), add, work)
    return found[:, : rows.shape[1]]
