"""Unit vectors and exact cosines, with NumPy.

The numbers of a unit vector are rounded to multiples of 2^-26. Products of two of them are then multiples of
2^-52, and so are their sums, which are below 2: float64 holds them all exactly. So a cosine is the same
number to the last bit in whatever order it is summed: by NumPy, by compiled loops (kernels.py), on any
processor.
"""

from __future__ import annotations

import numpy as np

from mexma_cli.numerics.threads import in_blocks

GRID = np.float32(2.0**26)
"""One over the step of a unit vector's numbers. Those of 1/8 and more are multiples as float32 has them."""
LANES = 8
"""Sums whose total is a squared length: number i of a row goes to sum i mod 8."""

_AT_ONCE = 1 << 7  # rows and pairs that are taken at once, so that they stay in the processor's caches


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
    found: np.ndarray = np.isfinite(rows).all(axis=1) & rows.any(axis=1)
    return found


def dots(x: np.ndarray, y: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Dot products of pairs of unit vectors, float32 [p]; exact, then rounded.

    Args:
        x, y: float32 [n, d] and [m, d] from `units`.
        rows, columns: int64 [p], rows of x and of y.
    """
    out = np.empty(len(rows), dtype=np.float32)

    def some(part: slice) -> None:
        left, right = (side[own[part]].astype(np.float64) for side, own in ((x, rows), (y, columns)))
        out[part] = np.einsum("pd,pd->p", left, right)

    in_blocks(len(rows), _AT_ONCE, some, len(rows) * x.shape[1])
    return out
