"""Exact nearest neighbours of few rows with NumPy alone.

Loading torch and compiled loops takes longer than such a search. The neighbours are those of `sweep.search`
to the last bit: here, too, products in float32 only rule out pairs that cannot be among the nearest.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mexma_cli.knn.keys import EMPTY, keys_of, scores_of
from mexma_cli.knn.sides import Side
from mexma_cli.knn.units import dots
from mexma_cli.numerics.precisions import default_device
from mexma_cli.numerics.threads import in_slices

WORK = 1 << 37
"""Multiplications from which loading what is faster pays."""
_TILE = 1 << 8, 1 << 14  # rows and columns that are multiplied at once
_ROWS = 16  # of a tile that are looked at together, in the processor's cache
_GROUPS = 1 << 9  # at least, whose maxima stand for a row's or a column's numbers


def suits(left: Side, right: Side) -> bool:
    """Whether a search is small, and no GPU was asked for."""
    return len(left) * len(right) * left.dim < WORK and default_device() in ("auto", "cpu")


def search(
    left: Side,
    right: Side,
    forward: np.ndarray,
    backward: np.ndarray,
    on_progress: Callable[[int, int], None] | None = None,
) -> None:
    """Find the nearest of all rows of both sides in the other.

    Args:
        forward, backward: Keys, int64 [n, k] and [m, k'], all EMPTY; become the neighbours', ascending.
        on_progress: Called with (tiles done, tiles in all).

    Raises:
        ValueError: A vector is not finite.
    """
    x, y = left.units(0, len(left)), right.units(0, len(right))
    rounding = (left.dim + 2) * 2.0**-24
    slack = np.float32(rounding / (1 - rounding) * 1.01)  # float32 sums in any order, of unit vectors
    places = [
        (slice(top, top + _TILE[0]), slice(start, start + _TILE[1]))
        for start in range(0, len(y), _TILE[1])
        for top in range(0, len(x), _TILE[0])
    ]
    for done, (own, other) in enumerate(places, start=1):
        estimates = _products(x[own], y[other])
        of_columns = _bounds(estimates.T, backward[other], slack)
        rows, columns = _near(estimates, of_columns, forward[own], slack)
        cosines = dots(x[own], y[other], rows, columns)
        _offer(forward[own], rows, keys_of(cosines, columns + other.start))
        _offer(backward[other], columns, keys_of(cosines, rows + own.start))
        if on_progress is not None:
            on_progress(done, len(places))


def _products(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x @ y.T, on all threads."""
    found = np.empty((len(x), len(y)), np.float32)

    def some(begin: int, end: int) -> None:
        np.matmul(x, y[begin:end].T, out=found[:, begin:end])

    in_slices(len(y), some, found.size * x.shape[1])
    return found


def _bounds(estimates: np.ndarray, lists: np.ndarray, slack: np.float32) -> np.ndarray:
    """The estimates [r, c] from which a pair may enter its row's list, float32 [r].

    The k-th largest of the maxima of groups is not above the k-th largest of the row. Where all lists are
    full, they say more than this tile would.
    """
    known, (size, k) = scores_of(lists[:, 0]), (estimates.shape[1], lists.shape[1])
    if size < k or lists[:, 0].min(initial=0) > EMPTY:
        return known - slack
    groups, floors = max(_GROUPS, 4 * k), np.empty(len(known), np.float32)

    def some(begin: int, end: int) -> None:
        part = estimates[begin:end]
        if size >= 2 * groups:
            whole = size // groups * groups
            part = part[:, :whole].reshape(len(part), -1, groups).max(axis=1)
        floors[begin:end] = np.partition(part, -k, axis=1)[:, -k] - slack

    in_slices(len(known), some, estimates.size)
    return np.maximum(floors, known) - slack


def _near(
    estimates: np.ndarray, of_columns: np.ndarray, lists: np.ndarray, slack: np.float32
) -> tuple[np.ndarray, np.ndarray]:
    """Which estimates [r, c] are not below the bound of their row or column: rows and columns, int64 [p]."""
    found: dict[int, np.ndarray] = {}

    def some(begin: int, end: int) -> None:
        for at in range(begin, end, _ROWS):
            part = estimates[at : min(at + _ROWS, end)]
            near = part >= _bounds(part, lists[at : at + len(part)], slack)[:, None]
            near |= part >= of_columns
            found[at] = np.flatnonzero(near) + at * len(of_columns)

    in_slices(len(estimates), some, estimates.size)
    return np.divmod(np.concatenate([found[at] for at in sorted(found)]), len(of_columns))


def _offer(lists: np.ndarray, rows: np.ndarray, keys: np.ndarray) -> None:
    """Merge keys of some rows into their lists, ascending, of the k largest."""
    order = np.lexsort((-keys, rows))
    rows, keys = rows[order], keys[order]
    rank = np.arange(len(rows)) - np.searchsorted(rows, rows)
    best = rank < lists.shape[1]
    touched, places = np.unique(rows[best], return_inverse=True)
    new = np.full((len(touched), lists.shape[1]), EMPTY)
    new[places, rank[best]] = keys[best]
    lists[touched] = np.sort(np.concatenate([lists[touched], new], axis=1), axis=1)[:, -lists.shape[1] :]
