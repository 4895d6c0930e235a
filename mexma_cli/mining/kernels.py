"""The inner loops of the search for neighbours, compiled by Numba: no matrix library has them.

A pair's cosine always comes from the same loop over its two rows, so it is the same number to the last bit
however the matrix was cut into tiles, from whichever direction the pair was found, and after a resumed run.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from numba import njit, types
from numba.extending import overload

EMPTY = np.iinfo(np.int64).min
"""The key of a place in a list of k best that nobody has taken."""
_LANES = 64  # neighbouring numbers that are looked at together
_PARALLEL_FROM = 1 << 22  # multiplications; below that a thread costs more than it brings

_compiled = functools.partial(njit, nogil=True, cache=True, error_model="numpy")
# Sums may be reordered, so that they become vector instructions; not-a-number keeps its meaning.
_summing = functools.partial(_compiled, fastmath={"reassoc", "contract", "nsz"})


def dots(x: np.ndarray, y: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Dot products of pairs of rows, float32 [p].

    Args:
        x, y: float32 [n, d] and [m, d], each row contiguous.
        rows, columns: int64 [p], rows of x and of y.
    """
    out = np.empty(len(rows), dtype=np.float32)
    work = len(rows) * x.shape[1]
    in_slices(len(rows), lambda a, b: _dots(x, y, rows[a:b], columns[a:b], out[a:b]), work)
    return out


def in_slices(count: int, task: Callable[[int, int], object], work: int = _PARALLEL_FROM) -> None:
    """Run `task(start, stop)` over [0, count), on as many threads as torch may use; Numba code is free of
    the interpreter's lock.

    Args:
        work: About how many multiplications there are in all.
    """
    if work < _PARALLEL_FROM or count < 2:
        task(0, count)
        return
    borders = np.linspace(0, count, torch.get_num_threads() + 1).astype(int).tolist()
    pieces = list(itertools.pairwise(borders))
    each(len(pieces), lambda piece: task(*pieces[piece]), work)


def each(count: int, task: Callable[[int], object], work: int = _PARALLEL_FROM) -> None:
    """Run `task(0)` to `task(count - 1)`, each on a thread of its own where there is enough work."""
    if count == 1 or work < _PARALLEL_FROM:
        for number in range(count):
            task(number)
        return
    others = [_pool(count - 1).submit(task, number) for number in range(1, count)]
    task(0)
    for other in others:
        other.result()


@functools.cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="mexma-mining")


@_summing()
def _dot(a: np.ndarray, b: np.ndarray) -> np.float32:
    total = np.float32(0)
    for i in range(len(a)):
        total += a[i] * b[i]
    return total


@_compiled()
def _dots(x: np.ndarray, y: np.ndarray, rows: np.ndarray, columns: np.ndarray, out: np.ndarray) -> None:
    for pair in range(len(rows)):
        out[pair] = _dot(x[rows[pair]], y[columns[pair]])


def decode(value: np.generic) -> np.float32:
    """A number of a tile as float32: itself, or the upper half of one (bfloat16 as uint16)."""
    raise NotImplementedError("compiled code only")


@overload(decode, strict=False)
def _decode(value: types.Type) -> Callable[..., np.float32]:
    if value == types.uint16:
        return lambda value: np.uint32(np.uint32(value) << np.uint32(16)).view(np.float32)
    return lambda value: value


@_compiled()
def key(score: np.float32, row: int) -> np.int64:
    """One int64 that orders as (score ascending, row descending)."""
    bits = np.int64(np.float32(score + np.float32(0)).view(np.int32))  # -0.0 becomes 0.0
    ordered = bits if bits >= 0 else bits ^ np.int64(0x7FFFFFFF)
    return (ordered << np.int64(32)) | (np.int64(0xFFFFFFFF) - np.int64(row))


@_compiled()
def score_of(key: np.int64) -> np.float32:
    """The score in a key; -inf for EMPTY."""
    if key == EMPTY:
        return np.float32(-np.inf)
    ordered = np.int32(key >> np.int64(32))
    return np.int32(ordered if ordered >= 0 else ordered ^ np.int32(0x7FFFFFFF)).view(np.float32)


def scores_of(keys: np.ndarray) -> np.ndarray:
    """The scores in keys of any shape, float32; -inf for EMPTY."""
    ordered = (keys >> 32).astype(np.int32)
    scores = np.where(ordered < 0, ordered ^ np.int32(0x7FFFFFFF), ordered).astype(np.int32).view(np.float32)
    return np.where(keys == EMPTY, np.float32(-np.inf), scores)


@_compiled()
def _insert(best: np.ndarray, new: np.int64) -> None:
    """Put a key that exceeds the lowest into an ascending list, which loses its lowest."""
    place = 0
    while place + 1 < len(best) and best[place + 1] < new:
        best[place] = best[place + 1]
        place += 1
    best[place] = new


@_summing()
def _centred(
    unit: np.ndarray, centre: np.ndarray, other: np.ndarray, low: np.ndarray
) -> tuple[np.float32, np.float32, np.float32]:
    """One row minus the centre into `low`; returns its length, the length of what rounding lost, and the
    row's product with the other side's centre."""
    length, lost, bias = np.float32(0), np.float32(0), np.float32(0)
    for i in range(len(unit)):
        exact = unit[i] - centre[i]
        kept = round_into(low, i, exact)
        length += exact * exact
        lost += (exact - kept) * (exact - kept)
        bias += unit[i] * other[i]
    return np.sqrt(length), np.sqrt(lost), bias


def round_into(low: np.ndarray, place: int, value: np.float32) -> np.float32:
    """Write a float32 into an array, of bfloat16 if it is one of uint16; returns what it became."""
    raise NotImplementedError("compiled code only")


@overload(round_into, strict=False)
def _round_into(low: types.Type, place: types.Type, value: types.Type) -> Callable[..., np.float32]:
    if low.dtype == types.uint16:
        return lambda low, place, value: _to_bfloat16(low, place, value)
    return lambda low, place, value: _as_it_is(low, place, value)


@_compiled()
def _to_bfloat16(low: np.ndarray, place: int, value: np.float32) -> np.float32:
    bits = np.float32(value).view(np.uint32)
    odd = (bits >> np.uint32(16)) & np.uint32(1)
    upper = np.uint32((bits + np.uint32(0x7FFF) + odd) >> np.uint32(16))
    low[place] = np.uint16(upper)
    return np.uint32(upper << np.uint32(16)).view(np.float32)


@_compiled()
def _as_it_is(low: np.ndarray, place: int, value: np.float32) -> np.float32:
    low[place] = value
    return value


@_compiled()
def prepare(
    rows: np.ndarray, centre: np.ndarray, other: np.ndarray, low: np.ndarray, stats: np.ndarray
) -> int:
    """Normalise rows in place and make their low-precision copies.

    Args:
        rows: float32 [n, d]; becomes unit vectors, zeros stay zeros.
        centre, other: float32 [d], what is subtracted on this side and on the other.
        low: [n, d], float32 or bfloat16 as uint16: rows minus centre.
        stats: float32 [n, 3]: length of the centred row, length of the rounding error, rows @ other.

    Returns:
        The first row that is not finite, or -1.
    """
    for i in range(len(rows)):
        length = math.sqrt(_dot(rows[i], rows[i]))
        if not np.isfinite(length):
            return i
        if length > 0:
            scale = np.float32(length)
            for j in range(rows.shape[1]):
                rows[i, j] /= scale
        stats[i, 0], stats[i, 1], stats[i, 2] = _centred(rows[i], centre, other, low[i])
    return -1


@_compiled()
def _row_floor(
    tile: np.ndarray, spread: np.float32, y_bias: np.ndarray, groups: np.ndarray, k: int
) -> np.float32:
    """k numbers of a tile's row (plus y_bias) certainly reach this: the k-th best of the groups' maxima."""
    count = len(groups)
    groups[:] = -np.inf
    for start in range(0, len(tile) - count + 1, count):
        near, bias = tile[start : start + count], y_bias[start : start + count]
        for g in range(len(groups)):
            value = decode(near[g])
            lower = value - abs(value) * spread + bias[g]
            groups[g] = lower if lower > groups[g] else groups[g]
    return np.sort(groups)[count - k]


@_compiled()
def column_floors(
    tile: np.ndarray, spread: np.float32, x_bias: np.ndarray, groups: np.ndarray, k: int, floors: np.ndarray
) -> None:
    """What k numbers of each column of a tile (plus x_bias) certainly reach.

    Args:
        tile: [r, c]. spread: relative error of its numbers. x_bias: float32 [r].
        groups: float32 [g, c], scratch; g at least k.
        floors: float32 [c], the result.
    """
    count = len(groups)
    groups[:] = -np.inf
    for i in range(len(tile) - len(tile) % count):
        group, row = groups[i % count], tile[i]
        for j in range(len(row)):
            value = decode(row[j])
            lower = value - abs(value) * spread + x_bias[i]
            group[j] = lower if lower > group[j] else group[j]
    for j in range(tile.shape[1]):
        floors[j] = np.sort(groups[:, j])[count - k]


@_compiled()
def scan(
    tile: np.ndarray,
    spread: np.float32,
    x: tuple[np.ndarray, np.ndarray, np.ndarray],
    y: tuple[np.ndarray, np.ndarray, np.ndarray],
    column_bound: np.ndarray,
    groups: np.ndarray,
    best: np.ndarray,
    worst: np.ndarray,
    ids: tuple[int, int],
    queue: tuple[np.ndarray, np.ndarray],
    rows: tuple[int, int],
    broken: np.ndarray,
) -> tuple[int, int]:
    """Look at some rows of a tile: what may be among the k best of its row or column is computed exactly.

    Args:
        tile: [r, c] of estimates, each off by at most spread times itself plus the slack.
        x, y: (unit vectors float32 [r, d], bias float32 [r], slack float32 [r]) of both sides. A pair's
            estimate is its number in the tile plus both biases.
        column_bound: float32 [c], what a column's estimate (without y's bias) must reach.
        groups: float32 [g] scratch, g >= k; empty where the tile is too small for floors.
        best: int64 [r, k] keys of the rows' k best, ascending, updated in place.
        worst: int64 [c], the lowest key in each column's list.
        ids: global numbers of the tile's first row and first column.
        queue: int64 [q] and int32 [q]: keys for columns, and which; to be merged by the caller.
        rows: first row to look at, and the row to stop before.
        broken: int64 [1], added to: pairs further off than they may be.

    Returns:
        The row that comes next (less than `rows[1]` when the queue is full), and the queue's length.
    """
    unit_x, bias_x, slack_x = x
    unit_y, bias_y, _ = y
    queue_keys, queue_columns = queue
    width, queued = tile.shape[1], 0
    found = np.empty(width + 1, dtype=np.int32)
    for i in range(rows[0], rows[1]):
        if len(queue_keys) - queued < width:
            return i, queued
        kth = score_of(best[i, 0])
        if best[i, 0] == EMPTY and len(groups):
            kth = _row_floor(tile[i], spread, bias_y, groups, best.shape[1]) + bias_x[i] - slack_x[i]
        bound = kth - slack_x[i] - bias_x[i]
        hits = _hits(tile[i], spread, bias_y, bias_x[i], bound, column_bound, found)
        for place in range(hits):
            j = found[place]
            exact = _dot(unit_x[i], unit_y[j])
            estimate = decode(tile[i, j])
            off = abs(exact - (estimate + bias_x[i] + bias_y[j]))
            broken[0] += off > abs(estimate) * spread + slack_x[i]
            new = key(exact, ids[1] + j)
            if new > best[i, 0]:
                _insert(best[i], new)
            new = key(exact, ids[0] + i)
            if new > worst[j]:
                queue_keys[queued], queue_columns[queued] = new, j
                queued += 1
    return rows[1], queued


@_compiled()
def _hits(
    tile: np.ndarray,
    spread: np.float32,
    bias_y: np.ndarray,
    bias_x: np.float32,
    bound: np.float32,
    column_bound: np.ndarray,
    found: np.ndarray,
) -> int:
    """Places in a tile's row that reach its bound or their column's, into `found`; returns how many."""
    count = 0
    for start in range(0, len(tile), _LANES):
        near, biases = tile[start : start + _LANES], bias_y[start : start + _LANES]
        limits = column_bound[start : start + _LANES]
        any_hit = False
        for j in range(len(near)):  # over slices from 0 on: what may be negative is not vectorised
            value = decode(near[j])
            upper = value + abs(value) * spread
            any_hit |= (upper + biases[j] >= bound) | (upper + bias_x >= limits[j])
        if any_hit:
            for j in range(len(near)):
                value = decode(near[j])
                upper = value + abs(value) * spread
                found[count] = start + j
                count += (upper + biases[j] >= bound) | (upper + bias_x >= limits[j])
    return count


@_compiled()
def merge(best: np.ndarray, keys: np.ndarray, columns: np.ndarray) -> None:
    """Put queued keys into the columns' lists.

    Args:
        best: int64 [c, k], ascending.
        keys, columns: int64 and int32 [q].
    """
    for place in range(len(keys)):
        if keys[place] > best[columns[place], 0]:
            _insert(best[columns[place]], keys[place])
