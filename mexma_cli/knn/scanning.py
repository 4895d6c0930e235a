"""Select pairs by their estimated cosines, and compute them exactly, in loops that Numba compiles.

Compiling takes as long as a search of some ten thousand rows, so there is little of it: loops are the same
for all arithmetics, take few arrays, and leave to NumPy what is not their inside.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np

from mexma_cli.knn.kernels import dot, key, product, score_of
from mexma_cli.knn.keys import scores_of
from mexma_cli.numerics.compiling import compiled, inner

_LANES = 64  # neighbouring numbers that are looked at together
_WIDE = 1 << 12  # those that are made float32 together
_HITS = 1 << 16  # pairs that are computed in one go, in the order of their columns
_NEAR = 1 << 20  # bytes of vectors that stay in the cache meanwhile

# A multiplication and the addition after it may become one instruction.
_scanning = functools.partial(compiled, fastmath={"contract"})
Found = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Selected pairs: int32 [p] twice, row and column of each in a tile, and float32 [p], estimates without
biases."""
Numbers = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""A tile's numbers [r, c], float32, or bfloat16 as uint16, the other array being empty; and room for some of
them as float32, and as its bits."""


def numbers_of(tile: np.ndarray, most: int) -> Numbers:
    """A tile as the loops of a thread take it, which look at so many neighbouring numbers at once."""
    room, none = np.empty(most, np.float32), np.empty((0, 0), np.float32)
    both = (none, tile) if tile.dtype == np.uint16 else (tile, none.astype(np.uint16))
    return *both, room, room.view(np.uint32)


_Row = tuple[np.float32, np.float32, np.float32, np.float32, np.float32]
_Others = tuple[np.ndarray, np.ndarray, np.ndarray]


@inner
def _part(tile: Numbers, i: int, start: int, stop: int) -> np.ndarray:
    """Some numbers of a tile's row, float32."""
    wide, low, room, bits = tile
    if len(wide):
        return wide[i, start:stop]
    near = low[i, start:stop]
    for j in range(len(near)):
        bits[j] = np.uint32(near[j]) << np.uint32(16)
    return room[: len(near)]


@_scanning()
def row_maxima(tile: Numbers, x: np.ndarray, y: np.ndarray, first: int, groups: np.ndarray) -> None:
    """Sort some rows' numbers into groups, and find a lower bound of each group's best, without the row's own
    bias and slack.

    Args:
        x: float32 [3, r], of these rows: steps, steps times the spread, and factors `as_row`.
        y: float32 [2, c], biases and factors `as_column`.
        first: The tile's first row of these.
        groups: float32 [r, g], updated in place.
    """
    count = groups.shape[1]
    for i in range(len(groups)):
        best, step, wide, as_row = groups[i], x[0, i], x[1, i], x[2, i]
        for start in range(0, y.shape[1] - count + 1, count):
            near = _part(tile, first + i, start, start + count)
            bias, factor = y[0, start : start + count], y[1, start : start + count]
            for j in range(len(near)):
                value = near[j]
                lower = value * step - abs(value) * wide - factor[j] * as_row + bias[j]
                best[j] = lower if lower > best[j] else best[j]


@_scanning()
def column_maxima(
    tile: Numbers, x: np.ndarray, as_column: np.ndarray, start: int, first: int, groups: np.ndarray
) -> None:
    """Sort a tile's rows into groups, and find a lower bound of each group's best in some columns.

    Args:
        x: float32 [4, r]: steps, steps times the spread, factors `as_row`, and biases less slacks.
        as_column: float32 [c], of these columns.
        start: The tile's first column of these.
        first: Group of the first row, modulo g.
        groups: float32 [g, c], updated in place.
    """
    for i in range(x.shape[1]):
        group, step, wide, as_row, bias = (
            groups[(first + i) % len(groups)],
            x[0, i],
            x[1, i],
            x[2, i],
            x[3, i],
        )
        near = _part(tile, i, start, start + len(as_column))
        for j in range(len(near)):
            value = near[j]
            lower = value * step - abs(value) * wide - as_column[j] * as_row + bias
            group[j] = lower if lower > group[j] else group[j]


class Rows(NamedTuple):
    """The rows of x in a tile, as in `blocks.Block`: unit vectors float32 [r, d], their rest, and float32
    [5, r]: steps, biases, factors `as_row`, slacks and lengths."""

    unit: np.ndarray
    rest: np.ndarray
    stats: np.ndarray


class Columns(NamedTuple):
    """The rows of y in a tile, as in `blocks.Block`: unit vectors float32 [c, d], their rest, and float32
    [4, c]: biases, factors `as_column`, bounds and errors.

    A bound is what an estimate without y's bias must reach to be among the column's k best.
    """

    unit: np.ndarray
    rest: np.ndarray
    stats: np.ndarray


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


def scan(
    tile: np.ndarray,
    spread: np.float32,
    x: Rows,
    y: Columns,
    groups: int,
    lists: Lists,
    rows: tuple[int, int],
) -> tuple[int, int]:
    """Search some rows of a tile: a pair that may be among the k best of its row or column is computed.

    Args:
        tile: [r, c]. A pair's estimate is its number here times x's step plus both biases, off by at most
            spread times the first of these three, plus x's `as_row` times y's `as_column`, plus x's slack.
        groups: Groups of a row's numbers, at least k; 0 where the tile is too small for floors.
        rows: first row to look at, and the row to stop before.

    Returns:
        The row that comes next (less than `rows[1]` when the queue is full), and the queue's length.
    """
    numbers, own, k = numbers_of(tile, max(groups, _WIDE)), slice(*rows), lists.best.shape[1]
    step, bias, as_row, slack = x.stats[:4, own]
    of_rows = np.stack([step, step * spread, as_row, as_row, bias + slack])
    kth = scores_of(lists.best[own, 0])
    if groups and kth.min() == -np.inf:
        maxima = np.full((len(kth), groups), -np.inf, np.float32)
        row_maxima(numbers, of_rows, y.stats, rows[0], maxima)
        floors = np.partition(maxima, -k, axis=1)[:, -k] + (bias - slack)
        kth = np.where(kth == -np.inf, floors, kth)
    of_rows[3] = kth - of_rows[4]
    most = max(_HITS, tile.shape[1])
    hits = np.empty(most + 1, np.int32), np.empty(most + 1, np.int32), np.empty(most + 1, np.float32)
    scratch = np.empty(_WIDE // _LANES, np.int64), np.empty(_LANES, np.bool_)
    queued, i = 0, rows[0]
    while i < rows[1] and (room := min(len(lists.keys) - queued, most)) >= tile.shape[1]:
        i, count = _select(numbers, of_rows, y.stats, (rows[0], i), room, hits, scratch)
        queued = compute((hits[0][:count], hits[1][:count], hits[2][:count]), spread, x, y, lists, queued)
    return i, queued


def compute(found: Found, spread: np.float32, x: Rows, y: Columns, lists: Lists, queued: int = 0) -> int:
    """Compute selected pairs exactly; returns the queue's length.

    Args:
        found: No more pairs than the queue has places.
        spread: As for `scan`.
        queued: Keys in the queue.
    """
    near = found[1] // max(1, _NEAR // (4 * x.unit.shape[1]))  # blocks whose vectors stay in the cache
    order = np.argsort(near.astype(np.uint16), kind="stable")
    return int(_compute(found, order, spread, x, y, lists, queued))


@compiled()
def _select(
    tile: Numbers,
    x: np.ndarray,
    y: np.ndarray,
    rows: tuple[int, int],
    room: int,
    hits: Found,
    scratch: tuple[np.ndarray, np.ndarray],
) -> tuple[int, int]:
    """Places that reach the bound of their row or their column.

    In loops of their own: otherwise LLVM does not make vector instructions of the first, and all takes four
    times as long.

    Args:
        x: float32 [5, r]: steps, steps times the spread, factors `as_row`, the bounds that estimates less x's
            bias and slack must reach for the row, and the addends for a column's bound.
        y: As `Columns.stats`.
        rows: The tile's row that x begins with, and the one to begin with.
        room: Places at most.
        hits: Receive the places and their estimates; longer than `room`.
        scratch: int64 [_WIDE / _LANES] and bool [_LANES].

    Returns:
        The row that comes next, and the number of hits.
    """
    width, i, count = y.shape[1], rows[1] - rows[0], np.int64(0)
    hit_rows, hit_columns, estimates = hits
    near, flags = scratch
    while i < x.shape[1] and room - count >= width:
        own = x[0, i], x[1, i], x[2, i], x[3, i], x[4, i]
        for left in range(0, width, _WIDE):
            right = left + _WIDE
            row, others = (
                _part(tile, rows[0] + i, left, right),
                (y[0, left:right], y[1, left:right], y[2, left:right]),
            )
            for place in range(_lanes(row, own, others, near)):
                start = near[place]
                lanes = row[start : start + _LANES]
                _reach(lanes, own, others, start, flags)
                for j in range(len(lanes)):
                    hit_rows[count], hit_columns[count] = rows[0] + i, left + start + j
                    estimates[count] = lanes[j] * x[0, i]
                    count += flags[j]
        i += 1
    return rows[0] + i, int(count)


@_scanning(no_cpython_wrapper=True)
def _lanes(row: np.ndarray, x: _Row, y: _Others, near: np.ndarray) -> int:
    """Where the lanes begin in which some number reaches a bound, into `near`; returns how many there are."""
    (step, wide, as_row, bound, above), (biases, factors, limits) = x, y
    count = 0
    for start in range(0, len(row), _LANES):
        lanes, near_biases = row[start : start + _LANES], biases[start : start + _LANES]
        near_factors, near_limits = factors[start : start + _LANES], limits[start : start + _LANES]
        reached = False
        for j in range(len(lanes)):  # over slices from 0 on: an index that may be negative is not vectorised
            value = lanes[j]
            upper = value * step + abs(value) * wide + near_factors[j] * as_row
            reached |= (upper + near_biases[j] >= bound) | (upper + above >= near_limits[j])
        near[count] = start
        count += reached
    return count


@_scanning(no_cpython_wrapper=True)
def _reach(lanes: np.ndarray, x: _Row, y: _Others, start: int, flags: np.ndarray) -> None:
    """Which numbers of some lanes reach a bound: bool [_LANES]."""
    step, wide, as_row, bound, above = x
    biases, factors, limits = y[0][start:], y[1][start:], y[2][start:]
    for j in range(len(lanes)):
        value = lanes[j]
        upper = value * step + abs(value) * wide + factors[j] * as_row
        flags[j] = (upper + biases[j] >= bound) | (upper + above >= limits[j])


@compiled()
def _compute(
    found: Found,
    order: np.ndarray,
    spread: np.float32,
    x: Rows,
    y: Columns,
    lists: Lists,
    queued: int,
) -> int:
    """`compute`, in this order."""
    best, worst, ids, keys, columns, counts = lists
    hit_rows, hit_columns, estimates = found
    for place in order:
        i, j = hit_rows[place], hit_columns[place]
        bias, as_row, slack, length = x.stats[1, i], x.stats[2, i], x.stats[3, i], x.stats[4, i]
        y_bias, as_column, bound, y_error = y.stats[0, j], y.stats[1, j], y.stats[2, j], y.stats[3, j]
        estimate = estimates[place]
        rounding = abs(estimate) * spread + slack
        error = rounding + as_row * as_column
        upper = estimate + (bias + y_bias) + error
        if upper < score_of(best[i, 0]) and upper - y_bias < bound:
            continue  # the row's list has become better since it was looked at
        if x.rest.shape[1]:
            estimate += product(x.rest[i], y.rest[j])
            error = rounding + length * y_error
            upper = estimate + (bias + y_bias) + error
            if upper < score_of(best[i, 0]) and upper - y_bias < bound:
                continue
        exact = dot(x.unit[i], y.unit[j])
        counts[0] += 1
        counts[1] += abs(exact - (estimate + (bias + y_bias))) > error
        new = key(exact, ids[1] + j)
        if new > best[i, 0]:
            _insert(best[i], new)
        new = key(exact, ids[0] + i)
        if new > worst[j]:
            keys[queued], columns[queued] = new, j
            queued += 1
    return queued


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


@inner
def _insert(best: np.ndarray, new: np.int64) -> None:
    """Put a key that exceeds the lowest into an ascending list, which loses its lowest."""
    place = 0
    while place + 1 < len(best) and best[place + 1] < new:
        best[place] = best[place + 1]
        place += 1
    best[place] = new
