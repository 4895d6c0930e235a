"""Unit vectors, exact cosines and lists of the best, with NumPy: `kernels.py` has the same in compiled loops.

The numbers of a unit vector are rounded to multiples of 2^-26. Products of two of them are then multiples of
2^-52, and so are their sums, which are below 2: float64 holds them all exactly. So a cosine is the same
number to the last bit in whatever order it is summed: by NumPy, by compiled loops (kernels.py), on any
processor.

A key is a score and a row number as one int64, so that lists of the best are sorted integers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from mexma_cli.numerics.threads import in_blocks

GRID = np.float32(2.0**26)
"""One over the step of a unit vector's numbers. Those of 1/8 and more are multiples as float32 has them."""
LANES = 8
"""Sums whose total is a squared length: number i of a row goes to sum i mod 8."""

_AT_ONCE = 1 << 7  # rows that are taken at once, so that they stay in the processor's caches
_NUMBERS = 1 << 15  # of pairs that are taken at once: so few that the C library keeps their memory for reuse

EMPTY = np.iinfo(np.int64).min
"""The key of a place in a list of k best that nobody has taken."""
PAIRS = 1 << 18
"""Pairs of a tile that are computed in one go, about."""


class TileLimits(NamedTuple):
    """How large estimates of one side of a tile must be, float32 [n] both.

    An estimate reaches the limit of row i if it is at least `need[i]` less its column's `above`, and that of
    column j if it is at least `need[j]` less its row's `above`.
    """

    need: Any
    above: Any


class TilePairs(NamedTuple):
    """Places in a tile, int64 [p] both, and the estimates there, float32 [p]."""

    rows: Any
    columns: Any
    estimates: Any


def unit_rows(rows: np.ndarray) -> int:
    """Make unit vectors of rows, in place, whose numbers are multiples of 1 / GRID; zeros stay zeros.

    Args:
        rows: float32 [n, d].

    Returns:
        The first row that is not finite, or -1.
    """
    for start in range(0, len(rows), _AT_ONCE):
        part = rows[start : start + _AT_ONCE]
        squares = np.zeros((len(part), -(-part.shape[1] // LANES), LANES))
        squares.reshape(len(part), -1)[:, : part.shape[1]] = part
        np.square(squares, out=squares)
        sums = np.zeros((len(part), LANES))  # added in this order, and in no faster one, on every processor
        for place in range(squares.shape[1]):
            sums += squares[:, place]
        halves = sums[:, :4] + sums[:, 4:]
        lengths = np.sqrt((halves[:, 0] + halves[:, 2]) + (halves[:, 1] + halves[:, 3]))
        bad = np.flatnonzero(~np.isfinite(lengths))
        if len(bad):
            return start + int(bad[0])
        lengths[lengths == 0] = 1
        part[:] = np.rint((part / lengths[:, None]).astype(np.float32) * GRID) / GRID
    return -1


def directed(rows: np.ndarray) -> np.ndarray:
    """Which rows, float [n, d], have a direction and so a cosine, whatever their length: bool [n]."""
    return np.isfinite(rows).all(axis=1) & np.any(rows, axis=1)


def dots(x: np.ndarray, y: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Dot products of pairs of unit vectors, float32 [p]; exact, then rounded.

    Args:
        x, y: float32 [n, d] and [m, d], as `unit_rows` makes them.
        rows, columns: int64 [p], rows of x and of y.
    """
    out = np.empty(len(rows), dtype=np.float32)

    def some(part: slice) -> None:
        out[part] = np.einsum("pd,pd->p", x[rows[part]], y[columns[part]], dtype=np.float64)

    in_blocks(len(rows), max(8, _NUMBERS // max(1, x.shape[1])), some, len(rows) * x.shape[1])
    return out


def near(tile: Any, rows: TileLimits, columns: TileLimits, library: Any = np) -> Iterator[TilePairs]:
    """Find the estimates of a tile that reach the limit of their row or their column.

    Args:
        tile: [r, c]; an array or, with torch as the library, a tensor. So are the limits.

    Yields:
        Pairs of some rows after others, in arrays of the same library.
    """
    width, found, count = tile.shape[1], [], 0
    step = max(1, PAIRS // width)
    for first in range(0, len(tile), step):
        part, own = tile[first : first + step], slice(first, first + step)
        for_rows = rows.need[own, None] - columns.above
        for_columns = columns.need - rows.above[own, None]
        reached = part >= library.minimum(for_rows, for_columns)
        places = library.where(reached.reshape(-1))[0]
        found.append(TilePairs(first + places // width, places % width, part.reshape(-1)[places]))
        count += len(places)
        if count >= PAIRS or first + step >= len(tile):
            yield TilePairs(*map(library.concat, zip(*found, strict=True)))
            found, count = [], 0


def offer(best: np.ndarray, rows: np.ndarray, ids: np.ndarray, scores: np.ndarray) -> None:
    """Put pairs, none of which is there yet, into the lists of the k best, where they are good enough.

    Args:
        best: int64 [n, k], keys, each row ascending; updated in place.
        rows, ids: int64 [p], the list, and the row of the other side that may enter it.
        scores: float32 [p].
    """
    keys, k = keys_of(scores, ids), best.shape[1]
    better = keys > best[rows, 0]
    rows, keys = rows[better], keys[better]
    order = np.lexsort((-keys, rows))
    rows, keys = rows[order], keys[order]
    rank = np.arange(len(rows)) - np.searchsorted(rows, rows)
    first = rank < k
    touched, places = np.unique(rows[first], return_inverse=True)
    new = np.full((len(touched), k), EMPTY)
    new[places, rank[first]] = keys[first]
    best[touched] = np.sort(np.concatenate([best[touched], new], axis=1), axis=1)[:, -k:]


def keys_of(scores: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The keys of scores, float32, and row numbers, int64, of the same shape.

    They order as (score ascending, row descending).
    """
    bits = (scores + np.float32(0)).view(np.int32).astype(np.int64)  # -0.0 becomes 0.0
    return (np.where(bits < 0, bits ^ 0x7FFFFFFF, bits) << 32) | (0xFFFFFFFF - rows)


def rows_of(keys: np.ndarray) -> np.ndarray:
    """Row numbers in keys, int64."""
    return np.int64(0xFFFFFFFF) - (keys & np.int64(0xFFFFFFFF))


def scores_of(keys: np.ndarray) -> np.ndarray:
    """The scores in keys of any shape, float32; -inf for EMPTY."""
    ordered = (keys >> 32).astype(np.int32)
    scores = np.where(ordered < 0, ordered ^ np.int32(0x7FFFFFFF), ordered).astype(np.int32).view(np.float32)
    return np.where(keys == EMPTY, np.float32(-np.inf), scores)
