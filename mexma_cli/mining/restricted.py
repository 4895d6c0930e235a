"""Document-restricted search: each sentence is compared with those of the documents paired with its own.

Neighbourhoods, and so scores and thresholds, are still those of the whole text.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from mexma_cli.knn.neighbours import Neighbours
from mexma_cli.knn.sides import SearchSide, VectorSource, dots
from mexma_cli.mining.margin import MARGINS, margin
from mexma_cli.mining.match import Means
from mexma_cli.mining.retrieval import candidates_of
from mexma_cli.settings.stages import MineSettings

_TILE = 1024  # rows of a document that are compared at a time
_PAIR_BYTES = 28  # of a pair of rows that are compared, in temporary arrays
_EXACT = 1 << 12  # pairs from which it pays to estimate first which of them may be among the best


def restricted_search(
    x: np.ndarray | VectorSource,
    y: np.ndarray | VectorSource,
    documents: Iterable[tuple[np.ndarray, np.ndarray]],
    background: Means,
    settings: MineSettings,
) -> Neighbours:
    """Find as many of the best rows by margin as the settings want (`candidates_of`), among those of the
    paired documents, from x to y and from y to x.

    Of equal margins the nearer row comes first, then the lower. The cosines are exact: a matrix product only
    rules out pairs that cannot be among the best, by its largest possible error and the margin's slope. With
    a margin whose slope is not known, no pair is ruled out.

    Args:
        x, y: [N, d] and [M, d].
        documents: rows of x and rows of y, int64, ascending: the sentences of two documents that are paired.
            A row can be in several, two rows together in one at most.
        background: the neighbourhood means of all rows, float32 [N] and [M].

    Returns:
        As `knn`, but sorted by margin; rows with fewer than k candidates have ids of -1 after them.
    """
    left, right = SearchSide(x, None), SearchSide(y, None)
    k = candidates_of(settings)
    forward, backward = _Best(left.rows, k), _Best(right.rows, k)
    for own, other in documents:
        for top in range(0, len(own), _TILE):
            rows = own[top : top + _TILE]
            unit = _units(left, rows)
            for start in range(0, len(other), _TILE):
                columns = other[start : start + _TILE]
                means = background[0][rows], background[1][columns]
                _compare(
                    rows, columns, unit, _units(right, columns), means, settings.margin, forward, backward
                )
    return Neighbours(forward.cosines, forward.ids, backward.cosines, backward.ids)


def bytes_to_compare(rows: int) -> int:
    """Bytes of temporary arrays of `restricted_search` for so many rows of both sides, besides vectors and
    neighbours."""
    return _PAIR_BYTES * min(_TILE, rows // 2) ** 2


class _Best:
    """The k best candidates so far of every row of a side, by margin."""

    def __init__(self, rows: int, k: int) -> None:
        self.margins = np.full((rows, k), -np.inf, dtype=np.float32)
        self.cosines = np.full((rows, k), -np.inf, dtype=np.float32)
        self.ids = np.full((rows, k), -1, dtype=np.int64)

    def add(self, rows: np.ndarray, ids: np.ndarray, cosines: np.ndarray, margins: np.ndarray) -> None:
        """Merge pairs, in any order."""
        touched = np.unique(rows)
        known_row, place = np.nonzero(self.ids[touched] >= 0)
        known = touched[known_row], place
        rows = np.concatenate([known[0], rows])
        ids = np.concatenate([self.ids[known], ids])
        cosines = np.concatenate([self.cosines[known], cosines])
        margins = np.concatenate([self.margins[known], margins])
        order = np.lexsort((ids, -cosines, -margins, rows))
        rows = rows[order]
        rank = np.arange(len(rows)) - np.searchsorted(rows, rows)
        best = rank < self.ids.shape[1]
        where = rows[best], rank[best]
        self.ids[where], self.cosines[where] = ids[order[best]], cosines[order[best]]
        self.margins[where] = margins[order[best]]


def _units(side: SearchSide, rows: np.ndarray) -> np.ndarray:
    """Some rows as unit vectors float32 [n, d], as `knn` makes them."""
    side.ids = rows
    return side.unit_vectors(0, len(rows))


def _compare(
    rows: np.ndarray,
    columns: np.ndarray,
    left: np.ndarray,
    right: np.ndarray,
    means: Means,
    name: str,
    forward: _Best,
    backward: _Best,
) -> None:
    """Merge the best pairs of [a] rows and [b] columns, unit vectors [a, d] and [b, d], into both lists."""
    if len(rows) * len(columns) < _EXACT or MARGINS[name].slope is None:
        a, b = (place.reshape(-1) for place in np.indices((len(rows), len(columns))))
    else:
        low = forward.margins[rows, -1], backward.margins[columns, -1]
        a, b = _promising(left, right, means, name, forward.ids.shape[1], low)
    cosines = dots(left, right, a, b)
    margins = margin(cosines, means[0][a], means[1][b], name)
    forward.add(rows[a], columns[b], cosines, margins)
    backward.add(columns[b], rows[a], cosines, margins)


def _promising(
    left: np.ndarray, right: np.ndarray, means: Means, name: str, k: int, low: Means
) -> tuple[np.ndarray, np.ndarray]:
    """The pairs that may be among the k best of their row or of their column.

    A float32 sum of d products of two unit vectors errs by d * 2^-24 at most (Higham, "Accuracy and Stability
    of Numerical Algorithms", section 3.1), an estimate and the cosine that counts by twice that together.

    Args:
        low: the k-th best margins so far of rows and of columns.
    """
    error = np.float32(2.1 * left.shape[1] * 2.0**-24 + 1e-7)
    own, other = means[0][:, None], means[1][None, :]
    estimate = margin(left @ right.T, own, other, name)
    slope = MARGINS[name].slope
    assert slope is not None
    slack = error * slope((own + other) / 2) + np.float32(1e-6) * (np.abs(estimate) + 1)
    most = estimate + slack
    chosen = np.zeros(estimate.shape, dtype=bool)
    for axis in (0, 1):
        bound, count = low[1 - axis], estimate.shape[axis]
        if count > k and np.isneginf(bound).any():  # lists that are full already say enough
            least = estimate - slack
            kth = least.max(axis) if k == 1 else np.partition(least, count - k, axis).take(count - k, axis)
            bound = np.maximum(bound, kth)
        chosen |= most >= np.expand_dims(bound, axis)
    a, b = np.nonzero(chosen)
    return a, b
