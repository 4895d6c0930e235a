"""The inner loops of the search for neighbours, compiled by Numba: no matrix library has them.

A pair's cosine is exact (see units.py), so it is the same number to the last bit however the matrix was cut
into tiles, from whichever direction the pair was found, on every processor, and after a resumed run.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np
from numba import types
from numba.extending import overload

from mexma_cli.knn.keys import EMPTY
from mexma_cli.knn.units import GRID, LANES
from mexma_cli.numerics.compiling import compiled, summing
from mexma_cli.numerics.threads import in_slices

_largest = functools.partial(compiled, fastmath={"nnan", "nsz"})


def dots(x: np.ndarray, y: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """`units.dots`, compiled."""
    out = np.empty(len(rows), dtype=np.float32)
    work = len(rows) * x.shape[1]
    in_slices(len(rows), lambda a, b: _dots(x, y, rows[a:b], columns[a:b], out[a:b]), work)
    return out


@summing()
def dot(a: np.ndarray, b: np.ndarray) -> np.float32:
    """The dot product of two unit vectors, exact before it is rounded (of other rows: nearly)."""
    total = np.float64(0)
    for i in range(len(a)):
        total += np.float64(a[i]) * np.float64(b[i])
    return np.float32(total)


@compiled()
def _dots(x: np.ndarray, y: np.ndarray, rows: np.ndarray, columns: np.ndarray, out: np.ndarray) -> None:
    for pair in range(len(rows)):
        out[pair] = dot(x[rows[pair]], y[columns[pair]])


@compiled()
def key(score: np.float32, row: int) -> np.int64:
    """`keys_of` of one score and row."""
    bits = np.int64(np.float32(score + np.float32(0)).view(np.int32))  # -0.0 becomes 0.0
    ordered = bits if bits >= 0 else bits ^ np.int64(0x7FFFFFFF)
    return (ordered << np.int64(32)) | (np.int64(0xFFFFFFFF) - np.int64(row))


@compiled()
def score_of(key: np.int64) -> np.float32:
    """The score in a key; -inf for EMPTY."""
    if key == EMPTY:
        return np.float32(-np.inf)
    ordered = np.int32(key >> np.int64(32))
    return np.int32(ordered if ordered >= 0 else ordered ^ np.int32(0x7FFFFFFF)).view(np.float32)


@summing()
def _centred(
    unit: np.ndarray, centre: np.ndarray, other: np.ndarray, low: np.ndarray, inverse: np.float32
) -> tuple[np.float32, np.float32, np.float32]:
    """One row minus the centre into `low`, in steps of 1 / inverse; returns its length, the length of the
    rounding error, and the row's product with the other side's centre."""
    length, lost, bias = np.float32(0), np.float32(0), np.float32(0)
    step = np.float32(1) / inverse
    for i in range(len(unit)):
        exact = unit[i] - centre[i]
        kept = round_into(low, i, exact * inverse) * step
        length += exact * exact
        lost += (exact - kept) * (exact - kept)
        bias += unit[i] * other[i]
    return np.sqrt(length), np.sqrt(lost), bias


def round_into(low: np.ndarray, place: int, value: np.float32) -> np.float32:
    """Write a float32 into an array of float32, int8 or, as uint16, bfloat16; returns what it became."""
    raise NotImplementedError("compiled code only")


@overload(round_into, strict=False)
def _round_into(low: types.Type, place: types.Type, value: types.Type) -> Callable[..., np.float32]:
    if low.dtype == types.uint16:
        return lambda low, place, value: _to_bfloat16(low, place, value)
    if low.dtype == types.int8:
        return lambda low, place, value: _to_int8(low, place, value)
    return lambda low, place, value: _as_it_is(low, place, value)


@compiled()
def _to_bfloat16(low: np.ndarray, place: int, value: np.float32) -> np.float32:
    bits = np.float32(value).view(np.uint32)
    odd = (bits >> np.uint32(16)) & np.uint32(1)
    upper = np.uint32((bits + np.uint32(0x7FFF) + odd) >> np.uint32(16))
    low[place] = np.uint16(upper)
    return np.uint32(upper << np.uint32(16)).view(np.float32)


@compiled()
def _to_int8(low: np.ndarray, place: int, value: np.float32) -> np.float32:
    nearest = np.int32(value + (np.float32(0.5) if value >= 0 else np.float32(-0.5)))
    low[place] = np.int8(nearest)
    return np.float32(nearest)


@compiled()
def _as_it_is(low: np.ndarray, place: int, value: np.float32) -> np.float32:
    low[place] = value
    return value


def inverse_step(unit: np.ndarray, centre: np.ndarray, low: np.ndarray) -> np.float32:
    """The factor of a centred row before it is rounded: for int8, its largest number becomes 127."""
    raise NotImplementedError("compiled code only")


@overload(inverse_step, strict=False)
def _inverse_step(unit: types.Type, centre: types.Type, low: types.Type) -> Callable[..., np.float32]:
    if low.dtype == types.int8:
        return lambda unit, centre, low: _int8_inverse(unit, centre)
    return lambda unit, centre, low: np.float32(1)


@_largest()
def _int8_inverse(unit: np.ndarray, centre: np.ndarray) -> np.float32:
    largest = np.float32(0)
    for i in range(len(unit)):
        size = abs(unit[i] - centre[i])
        largest = size if size > largest else largest
    return np.float32(127) / largest if largest > np.float32(1e-20) else np.float32(1)


@compiled()
def _length(row: np.ndarray) -> float:
    """A row's length, its squares summed in the order of `units.unit_rows`."""
    sums = np.zeros(LANES)
    for i in range(len(row)):
        sums[i % LANES] += np.float64(row[i]) * np.float64(row[i])
    return math.sqrt(
        ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]))
    )


@compiled()
def unit_rows(rows: np.ndarray) -> int:
    """`units.unit_rows`, compiled."""
    for i in range(len(rows)):
        length = _length(rows[i])
        if not np.isfinite(length):
            return i
        if length > 0:
            for j in range(rows.shape[1]):
                rows[i, j] = np.rint(np.float32(rows[i, j] / length) * GRID) / GRID
    return -1


@compiled()
def prepare(
    rows: np.ndarray, centre: np.ndarray, other: np.ndarray, low: np.ndarray, stats: np.ndarray
) -> int:
    """Normalise rows in place, as `unit_rows` does, and make their low-precision copies.

    Args:
        rows: float32 [n, d]; becomes unit vectors, zeros stay zeros.
        centre, other: float32 [d], what is subtracted on this side and on the other.
        low: [n, d], float32, bfloat16 as uint16, or int8: rows minus centre, divided by their steps.
        stats: float32 [n, 4]: length of the centred row, length of the rounding error, rows @ other, step.

    Returns:
        The first row that is not finite, or -1.
    """
    bad = unit_rows(rows)
    if bad >= 0:
        return bad
    for i in range(len(rows)):
        inverse = inverse_step(rows[i], centre, low[i])
        stats[i, 0], stats[i, 1], stats[i, 2] = _centred(rows[i], centre, other, low[i], inverse)
        stats[i, 3] = np.float32(1) / inverse
    return -1
