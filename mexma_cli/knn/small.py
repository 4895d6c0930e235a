"""Exact nearest neighbours of few rows with NumPy alone.

Loading torch and compiled loops takes longer than such a search. The neighbours are those of `sweep.search`
to the last bit: here, too, products in float32 only rule out pairs that cannot be among the nearest. Those
that may be wait until all, or very many, are found, since few of the first ones are still near then.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mexma_cli.knn.keys import EMPTY, keys_of
from mexma_cli.knn.sides import Side
from mexma_cli.knn.units import dots
from mexma_cli.numerics.precisions import default_device
from mexma_cli.numerics.threads import in_slices

WORK = 1 << 37
"""Multiplications from which loading what is faster pays."""
_TILE = 1 << 10, 1 << 12  # rows and columns that are multiplied at once
_LAYERS = 1 << 4  # numbers, at most, that one maximum stands for
_WAITING = 1 << 20  # pairs, about, until their exact cosines are computed


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
    slack = np.float32(rounding / (1 - rounding) * 2.02)  # of two float32 sums in any order, of unit vectors
    of_rows, of_columns = (np.full(lists.shape, -np.inf, np.float32) for lists in (forward, backward))
    memory = np.empty((min(_TILE[0], len(x)), min(_TILE[1], len(y))), np.float32)
    waiting: list[tuple[np.ndarray, np.ndarray]] = []
    places = [
        (slice(top, top + _TILE[0]), slice(start, start + _TILE[1]))
        for top in range(0, len(x), _TILE[0])
        for start in range(0, len(y), _TILE[1])
    ]

    def look(own: slice, other: slice) -> None:
        estimates = memory[: len(x[own]), : len(y[other])]

        def multiply(begin: int, end: int) -> None:
            np.matmul(x[own], y[other][begin:end].T, out=estimates[:, begin:end])

        in_slices(len(y[other]), multiply, estimates.size * x.shape[1])
        no_limits = np.full(len(y[other]), np.inf, np.float32)
        along = _near(estimates, of_rows[own], slack, no_limits, (len(y), 1))
        down = _near(estimates.T, of_columns[other], slack, of_rows[own, 0] - slack, (1, len(y)))
        first = own.start * len(y) + other.start
        waiting.extend((first + pairs, values) for pairs, values in (along, down))

    def settle() -> None:
        pairs, values = (np.concatenate(kind) for kind in zip(*waiting, strict=True))
        waiting.clear()
        for start in range(0, len(pairs), _WAITING):
            part = slice(start, start + _WAITING)
            rows, columns = np.divmod(pairs[part], len(y))
            near = values[part] >= np.minimum(of_rows[rows, 0], of_columns[columns, 0]) - slack
            rows, columns = rows[near], columns[near]
            cosines = dots(x, y, rows, columns)
            _offer(forward, rows, keys_of(cosines, columns))
            _offer(backward, columns, keys_of(cosines, rows))

    for done, place in enumerate(places, start=1):
        look(*place)
        if done == len(places) or sum(len(pairs) for pairs, _ in waiting) > _WAITING:
            settle()
        if on_progress is not None:
            on_progress(done, len(places))


def _near(
    estimates: np.ndarray, tops: np.ndarray, slack: np.float32, limits: np.ndarray, steps: tuple[int, int]
) -> tuple[np.ndarray, np.ndarray]:
    """The estimates [r, c] that may be among their row's k largest.

    Args:
        tops: float32 [r, k], ascending: the largest maxima of groups of a row's estimates so far; renewed.
            The first is not above the row's k-th largest estimate.
        limits: float32 [c]; estimates that are not below their column's are left out.
        steps: What a row, and a column, adds to the number of a pair.

    Returns:
        The numbers of the pairs, int64 [p], and their estimates, float32 [p].
    """
    (count, size), k = estimates.shape, tops.shape[1]
    groups = min(size, max(size // _LAYERS, 4 * k))
    layers = size // groups
    whole = layers * groups
    found: list[tuple[np.ndarray, np.ndarray]] = []

    def some(begin: int, end: int) -> None:
        part, best = estimates[begin:end], tops[begin:end]
        maxima = part[:, :whole].reshape(len(part), layers, groups).max(axis=1)
        rest = maxima[:, : size - whole]
        np.maximum(rest, part[:, whole:], out=rest)
        best[:] = np.sort(np.concatenate([best, maxima], axis=1), axis=1)[:, -k:]
        bounds = best[:, :1] - slack
        rows, first = (hit[:, None] for hit in np.divmod(np.flatnonzero(maxima >= bounds), groups))
        columns = first + np.arange(0, size, groups)
        values = part[rows, np.minimum(columns, size - 1)]
        near = (values >= bounds[rows[:, 0]]) & (values < limits.take(columns, mode="clip"))
        near &= columns < size
        found.append((((rows + begin) * steps[0] + columns * steps[1])[near], values[near]))

    in_slices(count, some, 4 * estimates.size)
    pairs, values = (np.concatenate(kind) for kind in zip(*found, strict=True))
    return pairs, values


def _offer(lists: np.ndarray, rows: np.ndarray, keys: np.ndarray) -> None:
    """Merge keys of some rows into their lists, ascending, of the k largest."""
    better = keys > lists[rows, 0]
    rows, keys = rows[better], keys[better]
    order = np.lexsort((-keys, rows))
    rows, keys = rows[order], keys[order]
    rank = np.arange(len(rows)) - np.searchsorted(rows, rows)
    best = rank < lists.shape[1]
    touched, places = np.unique(rows[best], return_inverse=True)
    new = np.full((len(touched), lists.shape[1]), EMPTY)
    new[places, rank[best]] = keys[best]
    lists[touched] = np.sort(np.concatenate([lists[touched], new], axis=1), axis=1)[:, -lists.shape[1] :]
