"""The loops that select pairs by their estimated cosines and compute them exactly, compiled by Numba."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numba import types
from numba.extending import overload

from mexma_cli.knn.kernels import dot, key, product, score_of
from mexma_cli.knn.keys import EMPTY
from mexma_cli.numerics.compiling import compiled

_LANES = 64  # neighbouring numbers that are looked at together
_HITS = 1 << 16  # pairs that are computed in one go, in the order of their columns
_NEAR = 1 << 20  # bytes of vectors that stay in the cache meanwhile

# A multiplication and the addition after it may become one instruction.
_scanning = functools.partial(compiled, fastmath={"contract"})


def decode(value: np.generic) -> np.float32:
    """A number of a tile as float32: itself, or the upper half of one (bfloat16 as uint16)."""
    raise NotImplementedError("compiled code only")


@overload(decode, strict=False)
def _decode(value: types.Type) -> Callable[..., np.float32]:
    if value == types.uint16:
        return lambda value: np.uint32(np.uint32(value) << np.uint32(16)).view(np.float32)
    return lambda value: value


@compiled()
def _insert(best: np.ndarray, new: np.int64) -> None:
    """Put a key that exceeds the lowest into an ascending list, which loses its lowest."""
    place = 0
    while place + 1 < len(best) and best[place + 1] < new:
        best[place] = best[place + 1]
        place += 1
    best[place] = new


@compiled()
def _kth_largest(values: np.ndarray, k: int) -> np.float32:
    """The k-th largest of float32 [n], which change places (Hoare's selection).

    Not np.partition: Numba compiles its checks and messages too, which took longer than all else here.
    """
    low, high, wanted = 0, len(values) - 1, len(values) - k
    while low < high:
        pivot = values[(low + high) // 2]
        left, right = low, high
        while left <= right:
            while values[left] < pivot:
                left += 1
            while values[right] > pivot:
                right -= 1
            if left <= right:
                values[left], values[right] = values[right], values[left]
                left, right = left + 1, right - 1
        if wanted <= right:
            high = right
        elif wanted >= left:
            low = left
        else:  # between them are equals of the pivot
            break
    return values[wanted]


@_scanning()
def _row_floor(
    tile: np.ndarray,
    step: np.float32,
    spread: np.float32,
    as_row: np.float32,
    bias_y: np.ndarray,
    as_column: np.ndarray,
    groups: np.ndarray,
    k: int,
) -> np.float32:
    """A lower bound of the k-th best of a tile's row, less x's bias and slack: the k-th best maximum of its
    groups."""
    count, wide = len(groups), step * spread
    groups[:] = -np.inf
    for start in range(0, len(tile) - count + 1, count):
        near, bias, factor = (
            tile[start : start + count],
            bias_y[start : start + count],
            as_column[start : start + count],
        )
        for g in range(len(groups)):
            value = decode(near[g])
            lower = value * step - abs(value) * wide - factor[g] * as_row + bias[g]
            groups[g] = lower if lower > groups[g] else groups[g]
    return _kth_largest(groups, k)


@_scanning()
def column_maxima(
    tile: np.ndarray,
    spread: np.float32,
    x: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray],
    as_column: np.ndarray,
    first: int,
    groups: np.ndarray,
) -> None:
    """Sort a tile's rows into groups, and find a lower bound of each group's best in each column.

    Args:
        tile: [r, c]. spread: relative error of its numbers.
        x: (step, bias, as_row, slack), each float32 [r]. as_column: float32 [c].
        first: group of the first row, modulo g.
        groups: float32 [g, c], updated in place.
    """
    steps, biases, factors, slacks = x
    for i in range(len(tile)):
        group, row, step, wide = groups[(first + i) % len(groups)], tile[i], steps[i], steps[i] * spread
        bias, as_row = biases[i] - slacks[i], factors[i]
        for j in range(len(row)):
            value = decode(row[j])
            lower = value * step - abs(value) * wide - as_column[j] * as_row + bias
            group[j] = lower if lower > group[j] else group[j]


@compiled()
def kth_best(groups: np.ndarray, k: int, floors: np.ndarray) -> None:
    """The k-th largest of each column of [g, c] into `floors` [c]."""
    column = np.empty(len(groups), dtype=np.float32)
    for j in range(groups.shape[1]):
        for group in range(len(groups)):
            column[group] = groups[group, j]
        floors[j] = _kth_largest(column, k)


class Rows(NamedTuple):
    """The rows of x in a tile, as in `blocks.Block`: unit vectors float32 [r, d] and their rest, the others
    float32 [r]."""

    unit: np.ndarray
    step: np.ndarray
    bias: np.ndarray
    as_row: np.ndarray
    slack: np.ndarray
    length: np.ndarray
    rest: np.ndarray


class Columns(NamedTuple):
    """The rows of y in a tile, as in `blocks.Block`: unit vectors float32 [c, d] and their rest, the others
    float32 [c].

    `bound` is what an estimate without y's bias must reach to be among the column's k best.
    """

    unit: np.ndarray
    bias: np.ndarray
    as_column: np.ndarray
    bound: np.ndarray
    error: np.ndarray
    rest: np.ndarray


class Lists(NamedTuple):
    """Where the pairs of a tile go.

    Attributes:
        best: int64 [r, k], keys of the rows' k best, ascending, updated in place.
        worst: int64 [c], the lowest key in each column's list.
        ids: global numbers of the tile's first row and first column.
        keys, columns: int64 [q] and int32 [q], a queue of keys for columns, and which; the caller merges it.
        counts: int64 [2], added to: pairs computed exactly, and those further off than they may be.
    """

    best: np.ndarray
    worst: np.ndarray
    ids: tuple[int, int]
    keys: np.ndarray
    columns: np.ndarray
    counts: np.ndarray


class _Row(NamedTuple):
    """The numbers for a row's estimates: x's step, the step times the spread, and x's `as_row`; the bound
    that an estimate (less x's bias and slack) must reach for the row, and the addend for a column's bound."""

    step: np.float32
    wide: np.float32
    as_row: np.float32
    bound: np.float32
    above: np.float32


@compiled()
def scan(
    tile: np.ndarray,
    spread: np.float32,
    x: Rows,
    y: Columns,
    groups: np.ndarray,
    lists: Lists,
    rows: tuple[int, int],
) -> tuple[int, int]:
    """Search some rows of a tile: a pair that may be among the k best of its row or column is computed.

    Args:
        tile: [r, c]. A pair's estimate is its number here times x's step plus both biases, off by at most
            spread times the first of these three, plus x's `as_row` times y's `as_column`, plus x's slack.
        groups: float32 [g] scratch, g >= k; empty where the tile is too small for floors.
        rows: first row to look at, and the row to stop before.

    Returns:
        The row that comes next (less than `rows[1]` when the queue is full), and the queue's length.
    """
    queued, i = np.int64(0), rows[0]  # a literal 0 would be a type of its own, and compiled twice
    hits = np.empty((2, max(_HITS, tile.shape[1] + 1)), dtype=np.int32)
    estimates = np.empty(hits.shape[1], dtype=np.float32)
    while i < rows[1]:
        room = min(len(lists.keys) - queued, hits.shape[1] - 1)
        if room < tile.shape[1]:
            break
        count = 0
        while i < rows[1] and room - count >= tile.shape[1]:
            best, step, above = lists.best[i], x.step[i], x.bias[i] + x.slack[i]
            kth = score_of(best[0])
            if best[0] == EMPTY and len(groups):
                kth = _row_floor(tile[i], step, spread, x.as_row[i], y.bias, y.as_column, groups, len(best))
                kth += x.bias[i] - x.slack[i]
            row = _Row(step, step * spread, x.as_row[i], kth - above, above)
            found = _hits(tile[i], row, y, hits[1, count:])
            for place in range(count, count + found):
                hits[0, place], estimates[place] = i, decode(tile[i, hits[1, place]]) * step
            count, i = count + found, i + 1
        order = _by_column(hits[1, :count], max(1, _NEAR // (4 * x.unit.shape[1])), tile.shape[1])
        queued = _compute((hits, estimates), order, spread, x, y, lists, queued)
    return i, int(queued)


@compiled()
def compute(
    found: tuple[np.ndarray, np.ndarray], spread: np.float32, x: Rows, y: Columns, lists: Lists
) -> int:
    """Compute pairs exactly that were selected elsewhere; returns the queue's length.

    Args:
        found: int32 [2, p], row and column of each in a tile, and float32 [p], their estimates without
            biases; no more pairs than the queue has places.
        spread: As for `scan`.
    """
    order = _by_column(found[0][1], max(1, _NEAR // (4 * x.unit.shape[1])), len(lists.worst))
    return _compute(found, order, spread, x, y, lists, np.int64(0))


@compiled()
def _by_column(columns: np.ndarray, block: int, width: int) -> np.ndarray:
    """Places in the order of blocks of columns, whose vectors stay in the processor's cache meanwhile."""
    starts = np.zeros(width // block + 2, dtype=np.int64)
    for place in range(len(columns)):
        starts[columns[place] // block + 1] += 1
    for group in range(1, len(starts)):  # np.cumsum takes longer to compile than all else here
        starts[group] += starts[group - 1]
    order = np.empty(len(columns), dtype=np.int32)
    for place in range(len(columns)):
        group = columns[place] // block
        order[starts[group]] = place
        starts[group] += 1
    return order


@compiled()
def _compute(
    found: tuple[np.ndarray, np.ndarray],
    order: np.ndarray,
    spread: np.float32,
    x: Rows,
    y: Columns,
    lists: Lists,
    queued: int,
) -> int:
    """Compute pairs exactly (rows and columns, int32 [2, h], and estimates without biases, float32 [h]), in
    this order, for the rows' lists and the columns' queue; returns the queue's length."""
    hits, estimates = found
    best, worst, ids, keys, columns, counts = lists
    for place in order:
        i, j = hits[0, place], hits[1, place]
        estimate, bias = estimates[place], x.bias[i] + y.bias[j]
        rounding = abs(estimate) * spread + x.slack[i]
        error = rounding + x.as_row[i] * y.as_column[j]
        upper = estimate + bias + error
        if upper < score_of(best[i, 0]) and upper - y.bias[j] < y.bound[j]:
            continue  # the row's list has become better since it was looked at
        if x.rest.shape[1]:
            estimate += product(x.rest[i], y.rest[j])
            error = rounding + x.length[i] * y.error[j]
            upper = estimate + bias + error
            if upper < score_of(best[i, 0]) and upper - y.bias[j] < y.bound[j]:
                continue
        exact = dot(x.unit[i], y.unit[j])
        counts[0] += 1
        counts[1] += abs(exact - (estimate + bias)) > error
        new = key(exact, ids[1] + j)
        if new > best[i, 0]:
            _insert(best[i], new)
        new = key(exact, ids[0] + i)
        if new > worst[j]:
            keys[queued], columns[queued] = new, j
            queued += 1
    return queued


@compiled()
def _hits(tile: np.ndarray, row: _Row, y: Columns, found: np.ndarray) -> int:
    """Places in a tile's row that reach its bound or their column's, into `found`; returns how many.

    In three loops of their own: otherwise LLVM does not make vector instructions of the first, and all takes
    four times as long.
    """
    count = 0
    near = np.empty(len(tile) // _LANES + 2, dtype=np.int32)
    flags = np.empty(_LANES, dtype=np.bool_)
    eights = flags.view(np.uint64)
    for place in range(_lanes(tile, row, y, near)):
        start = near[place]
        _reach(tile, row, y, start, flags)
        for eight in range(len(eights)):
            if eights[eight]:
                for j in range(8 * eight, 8 * eight + 8):
                    found[count] = start + j
                    count += flags[j]
    return count


@_scanning()
def _lanes(tile: np.ndarray, row: _Row, y: Columns, near: np.ndarray) -> int:
    """Where the lanes begin in which some number reaches a bound, into `near`; returns how many there are."""
    step, wide, as_row, bound, above = row
    count = 0
    for start in range(0, len(tile), _LANES):
        lanes, biases = tile[start : start + _LANES], y.bias[start : start + _LANES]
        factors, limits = y.as_column[start : start + _LANES], y.bound[start : start + _LANES]
        reached = False
        for j in range(len(lanes)):  # over slices from 0 on: an index that may be negative is not vectorised
            value = decode(lanes[j])
            upper = value * step + abs(value) * wide + factors[j] * as_row
            reached |= (upper + biases[j] >= bound) | (upper + above >= limits[j])
        near[count] = start
        count += reached
    return count


@_scanning()
def _reach(tile: np.ndarray, row: _Row, y: Columns, start: int, flags: np.ndarray) -> None:
    """Which numbers of the lanes from `start` on reach a bound: bool [_LANES], False beyond the tile."""
    step, wide, as_row, bound, above = row
    lanes, biases = tile[start : start + _LANES], y.bias[start : start + _LANES]
    factors, limits = y.as_column[start : start + _LANES], y.bound[start : start + _LANES]
    flags[len(lanes) :] = False
    for j in range(len(lanes)):
        value = decode(lanes[j])
        upper = value * step + abs(value) * wide + factors[j] * as_row
        flags[j] = (upper + biases[j] >= bound) | (upper + above >= limits[j])


@compiled()
def merge(best: np.ndarray, keys: np.ndarray, columns: np.ndarray) -> None:
    """Put queued keys into the columns' lists.

    Args:
        best: int64 [c, k], ascending.
        keys, columns: int64 and int32 [q].
    """
    for place in range(len(keys)):
        if keys[place] > best[columns[place], 0]:
            _insert(best[columns[place]], keys[place])
