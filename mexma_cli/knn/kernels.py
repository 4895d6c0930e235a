"""The inner loops of the search for neighbours, compiled by Numba: no matrix library has them.

A pair's cosine is exact (see cosines.py), so it is the same number to the last bit however the matrix was cut
into tiles, from whichever direction the pair was found, on every processor, and after a resumed run.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mexma_cli.knn.cosines import GRID, LANES, PAIRS, TileLimits, TilePairs
from mexma_cli.numerics.compiling import as_bits, called, compiled, inner
from mexma_cli.numerics.lanes import LANES as COLUMNS
from mexma_cli.numerics.lanes import multiply, tiles
from mexma_cli.numerics.threads import in_slices

_TOGETHER = 32  # neighbouring estimates that are looked at together


@compiled
def unit_rows(rows: np.ndarray) -> int:
    """`cosines.unit_rows`, compiled."""
    sums = np.empty(LANES)
    for row in range(len(rows)):
        own = rows[row]
        sums[:] = 0
        whole = len(own) // LANES * LANES
        for start in range(0, whole, LANES):
            some = own[start : start + LANES]
            for lane in range(LANES):
                sums[lane] += np.float64(some[lane]) * np.float64(some[lane])
        for place in range(whole, len(own)):
            sums[place - whole] += np.float64(own[place]) * np.float64(own[place])
        length = np.sqrt(
            ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]))
        )
        if not np.isfinite(length):
            return row
        if length == 0:
            length = 1.0
        for place in range(len(own)):
            number = np.float32(np.float64(own[place]) / length)
            own[place] = np.rint(number * GRID) / GRID
    return -1


def dots(x: np.ndarray, y: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """`cosines.dots`, compiled."""
    out = np.empty(len(rows), dtype=np.float32)
    work = len(rows) * x.shape[1]
    in_slices(len(rows), lambda a, b: _dots(x, y, rows[a:b], columns[a:b], out[a:b]), work)
    return out


@called
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


@inner
def key(score: np.float32, row: int) -> np.int64:
    """The key of one score and row, as by `keys_of`."""
    bits = np.int64(as_bits(np.float32(score + np.float32(0)), np.int32))  # -0.0 becomes 0.0
    ordered = bits if bits >= 0 else bits ^ np.int64(0x7FFFFFFF)
    return (ordered << np.int64(32)) | (np.int64(0xFFFFFFFF) - np.int64(row))


@compiled
def offer(best: np.ndarray, rows: np.ndarray, ids: np.ndarray, scores: np.ndarray) -> None:
    """`cosines.offer`, compiled; pairs that are there already stay as they are."""
    for pair in range(len(rows)):
        _put(best[rows[pair]], key(scores[pair], ids[pair]))


@inner
def _put(best: np.ndarray, new: np.int64) -> None:
    """Put a key into a list of the best, ascending, unless it is there or all of them are better."""
    if new <= best[0]:
        return
    k, place = len(best), 1  # of the first that is not less; np.searchsorted takes two seconds to compile
    while place < k and best[place] < new:
        place += 1
    if place < k and best[place] == new:
        return
    for lower in range(1, place):
        best[lower - 1] = best[lower]
    best[place - 1] = new


@compiled
def products_of_quads(
    left: np.ndarray, panels: np.ndarray, less: np.ndarray, factor: np.float32, tile: np.ndarray
) -> None:
    """Products of rows with rows, less a number, times a factor, into a tile of bfloat16 as uint16.

    Args:
        left: `lanes.quads` [r, width], at least as many rows as the tile, by `COLUMNS`.
        panels: `lanes.quads` [c / COLUMNS, width, COLUMNS], of which the last may be wider than the tile.
        less: int32 [c], taken from the exact sums.
    """
    sums = np.empty((len(left), COLUMNS), np.int32)
    tiles(left, True)
    for panel in range(len(panels)):
        sizes = len(left), left.shape[1], np.int64(COLUMNS)
        multiply(left, panels[panel], sums, sizes, (np.int64(0), np.int64(0)))
        columns = slice(panel * COLUMNS, (panel + 1) * COLUMNS)
        own_less = less[columns]
        for row in range(len(tile)):
            own, found = tile[row, columns], sums[row]
            for column in range(len(own)):
                bits = as_bits(np.float32(found[column] - own_less[column]) * factor, np.uint32)
                own[column] = np.uint16(np.uint32(bits + np.uint32(0x8000)) >> np.uint32(16))
    tiles(left, False)


@compiled
def score_lists(
    x: np.ndarray,
    y: np.ndarray,
    first: int,
    columns: np.ndarray,
    places: np.ndarray,
    ends: np.ndarray,
    scores: np.ndarray,
) -> None:
    """Compute exact cosines of rows of x with the rows on their lists that are in a block of the other side.

    Args:
        x, y: Unit vectors, float32 [n, d], and those of the block, [m, d], whose first row is `first`.
        columns: int64 [p], the lists one behind another, each of rows of the other side, ascending.
        places, ends: int64 [n], where in `columns` each row's list begins and ends. `places` moves behind
            what is computed, so that the lists are read once for all blocks.
        scores: float32 [p], of the same places as `columns`; filled here.
    """
    for row in range(len(x)):
        place, end = places[row], ends[row]
        while place < end and columns[place] - first < len(y):
            scores[place] = dot(x[row], y[columns[place] - first])
            place += 1
        places[row] = place


@compiled
def offer_lists(
    own: np.ndarray,
    theirs: np.ndarray,
    first: int,
    first_of_theirs: int,
    columns: np.ndarray,
    starts: np.ndarray,
    ends: np.ndarray,
    scores: np.ndarray,
) -> None:
    """`offer` all pairs of `score_lists` to the lists of the best of both their rows.

    Args:
        own, theirs: As `best`; x's rows are those of `own` from `first` on, and `theirs` are of y's rows from
            `first_of_theirs` on.
    """
    for row in range(len(starts)):
        for place in range(starts[row], ends[row]):
            _put(own[first + row], key(scores[place], columns[place]))
            _put(theirs[columns[place] - first_of_theirs], key(scores[place], first + row))


def near(tile: np.ndarray, rows: TileLimits, columns: TileLimits) -> Iterator[TilePairs]:
    """`cosines.near`, compiled.

    Args:
        tile: float32 [r, c], or bfloat16 as uint16.
    """
    bits = tile if tile.dtype == np.uint16 else tile.view(np.uint32)
    shift = np.uint32(16 if tile.dtype == np.uint16 else 0)
    most = max(PAIRS, tile.shape[1])
    row = 0
    while row < len(tile):
        found = TilePairs(np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most, np.float32))
        row, count = _near(bits, shift, rows, columns, row, found)
        yield TilePairs(*(part[:count] for part in found))


@compiled()
def _near(
    bits: np.ndarray, shift: np.uint32, rows: TileLimits, columns: TileLimits, first: int, found: TilePairs
) -> tuple[int, int]:
    """Find pairs from row `first` on; returns the row that comes next, and the number of pairs."""
    width, count, row = bits.shape[1], 0, first
    starts = np.empty(width // _TOGETHER + 1, np.int64)
    while row < len(bits) and len(found.rows) - count >= width:
        own, need, above = bits[row], rows.need[row], rows.above[row]
        for block in range(_blocks(own, shift, need, above, columns.need, columns.above, starts)):
            for column in range(starts[block], min(starts[block] + _TOGETHER, width)):
                estimate = as_bits(np.uint32(np.uint32(own[column]) << shift), np.float32)
                if estimate >= min(need - columns.above[column], columns.need[column] - above):
                    found.rows[count], found.columns[count], found.estimates[count] = row, column, estimate
                    count += 1
        row += 1
    return row, count


@inner
def _blocks(
    row: np.ndarray,
    shift: np.uint32,
    need: np.float32,
    above: np.float32,
    needs: np.ndarray,
    aboves: np.ndarray,
    starts: np.ndarray,
) -> int:
    """Where in a tile's row blocks of estimates begin some of which reach a limit; how many there are.

    Apart from `_near`, so that its inner loop becomes vector instructions.
    """
    count = 0
    for start in range(0, len(row), _TOGETHER):
        # Slices, whose places count from 0: an index that may be negative is not vectorised.
        own, own_needs, own_aboves = (
            row[start : start + _TOGETHER],
            needs[start : start + _TOGETHER],
            aboves[start : start + _TOGETHER],
        )
        reached = False
        for lane in range(len(own)):
            estimate = as_bits(np.uint32(np.uint32(own[lane]) << shift), np.float32)
            reached |= estimate >= min(need - own_aboves[lane], own_needs[lane] - above)
        starts[count] = start
        count += reached
    return count
