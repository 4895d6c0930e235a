"""The best paths of an alignment: dynamic programming in a band, some rows of cells at a time.

A band says for each row i of [0, n] which columns of [0, m] belong to it, and has one cell for each. Cell
(i, j) is the point before sentence i of the source and sentence j of the target; the numbers of a row's cells
are consecutive. An alignment of a and b sentences leads from cell (i - a, j - b) to cell (i, j).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np

LENGTHS = 0.5
ALIGNED = 2.0
SENTENCE = 0.4
PAGE = 1.4
"""Weights in the value of an alignment, what it and each sentence in it is worth, and what a page number or
running head in it costs; see docs/align.md."""
_SHORT = 4.0  # characters of a sentence that is worth all of SENTENCE; of fewer than half it costs something
_AT_ONCE = 1 << 15  # values of steps that are computed together: they stay in the processor's cache
_ALONE = 1 << 18  # multiplications in a product of matrices for which the library wakes no threads
_TALL = 8  # rows of such a product


class Band(NamedTuple):
    """First column, last column and first cell of each row, int64 [n + 1]; columns never decrease."""

    low: np.ndarray
    high: np.ndarray
    cells: np.ndarray


def gains(lengths: np.ndarray, headings: np.ndarray) -> np.ndarray:
    """Log-odds that aligning each sentence adds to a path, float64 [n].

    Headings, page numbers and what is shorter than a word cost something: they are more often on one side
    only than sentences.

    Args:
        lengths: Their characters.
        headings: int8 [n], as of `align.DocumentVectors`.
    """
    worth = SENTENCE * (2 * np.minimum(lengths / _SHORT, 1) - 1)
    return np.asarray(np.where(headings == 0, worth, np.where(headings == 1, -SENTENCE, -PAGE)))


def values(cosines: np.ndarray, x_lengths: np.ndarray, y_lengths: np.ndarray) -> np.ndarray:
    """Log-odds that alignments add to their paths beside the `gains` of their sentences, against leaving the
    same sentences unaligned.

    Evidence grows with the root of the length: so does the number of standard deviations by which a mean
    over words differs from its expectation. The lengths differ by a random walk of as many steps (Gale and
    Church 1993).

    Args:
        cosines: Of the sentences of both sides; x_lengths, y_lengths: their characters. All floating-point,
            of shapes that fit together.
    """
    total = x_lengths + y_lengths
    found: np.ndarray = np.sqrt(total)
    found *= cosines
    gaps = LENGTHS * x_lengths - LENGTHS * y_lengths
    np.abs(gaps, out=gaps)
    total += 1
    gaps /= np.sqrt(total, out=total)
    found -= gaps
    found += ALIGNED
    return found


class RunsBefore(NamedTuple):
    """The runs of 1 to S sentences that end before each point of a document of n sentences.

    Attributes:
        sums: float32 [n, d], a vector for each sentence; that of a run is their sum.
        scales: float32 [S, n + 1], one over the length of a run's vector; 0 where it has none.
        lengths: float32 [S, n + 1], characters.
        gains: float32 [S, n + 1], the sums of their sentences' `gains`.
    """

    sums: np.ndarray
    scales: np.ndarray
    lengths: np.ndarray
    gains: np.ndarray


class Rows(NamedTuple):
    """The cells of some rows, B, in a rectangle of C columns around the band.

    Attributes:
        first: The first row and the first column.
        best: float64 [B, C], values of the best paths to the cells; -inf outside of the band.
        by_step: float64 [B, 2 + S * S, C], those of the best paths with each last step (see `_sizes`).
    """

    first: tuple[int, int]
    best: np.ndarray
    by_step: np.ndarray


def best_path(x: RunsBefore, y: RunsBefore, band: Band) -> np.ndarray:
    """The cells of the best path, int64 [P, 2], row and column."""
    sizes = _sizes(len(x.scales)).tolist()
    from_end = np.arange(len(sizes), 0, -1, dtype=np.uint16)
    # The first of the best steps: argmax would copy each cell's values to stand together.
    steps = [
        (rows.first, ((rows.by_step == rows.best[:, None]) * from_end[:, None]).max(axis=1))
        for rows in _rows(x, y, band)
    ]
    cells = [(len(band.low) - 1, int(band.high[-1]))]
    while cells[-1] != (0, 0):
        i, j = cells[-1]
        while steps[-1][0][0] > i:
            steps.pop()
        (top, start), left = steps[-1]
        a, b = sizes[-int(left[i - top, j - start])]
        cells.append((i - a, j - b))
    return np.array(cells[::-1], np.int64)


def steps_near_best(x: RunsBefore, y: RunsBefore, band: Band, doubt: float) -> np.ndarray:
    """The steps on paths whose value is less than the best by no more than `doubt`.

    Returns:
        int64 [E, 4], row and column of the cells at which they begin and end, ascending.
    """
    last, width = _LastSteps(x, y, band, doubt), int(band.high[-1]) + 1
    cells = [1 - len(band.low) * width]  # minus their numbers, so that those behind come first
    lost = {cells[0]: 0.0}  # by the best path through a cell
    found: list[tuple[int, int, int, int]] = []
    while cells:
        cell = heappop(cells)
        i, j = divmod(-cell, width)
        own = lost.pop(cell)
        for (a, b), less in last.to(i, j):
            if own + less <= doubt:
                before = cell + a * width + b
                if before not in lost:
                    heappush(cells, before)
                lost[before] = min(own + less, lost.get(before, doubt))
                found.append((i - a, j - b, i, j))
    return np.array(sorted(found), np.int64).reshape(-1, 4)


class _RowSteps(NamedTuple):
    """Some rows of cells in a rectangle: its first cell and width; where the steps to each cell end among
    `kinds`, the steps by number; and by how much each is worse than the best one."""

    first: tuple[int, int]
    width: int
    ends: np.ndarray
    kinds: np.ndarray
    less: np.ndarray


class _LastSteps:
    """The steps with which paths to a cell end that are worse than the best one by no more than `doubt`.

    Rows are asked for from the last to the first; the memory of those behind is given back.
    """

    def __init__(self, x: RunsBefore, y: RunsBefore, band: Band, doubt: float) -> None:
        self._sizes = list(map(tuple, _sizes(len(x.scales)).tolist()))
        self._rows: list[_RowSteps] = []
        for rows in _rows(x, y, band):
            _, kinds, width = rows.by_step.shape
            least = np.where(rows.best > -np.inf, rows.best - doubt, np.inf)
            near = (rows.by_step >= least[:, None]).transpose(0, 2, 1)
            cells, steps = np.divmod(np.flatnonzero(near), kinds)
            i, j = np.divmod(cells, width)
            less = (rows.best[i, j] - rows.by_step[i, steps, j]).astype(np.float32)
            ends = np.bincount(cells + 1, minlength=least.size + 1).cumsum().astype(np.int32)
            self._rows.append(_RowSteps(rows.first, width, ends, steps.astype(np.uint16), less))

    def to(self, i: int, j: int) -> list[tuple[tuple[int, int], float]]:
        """Sentences of both sides of each such step to a cell, and how much worse its path is."""
        while self._rows[-1].first[0] > i:
            self._rows.pop()
        (top, start), width, ends, steps, less = self._rows[-1]
        place = (i - top) * width + j - start
        own = slice(*ends[place : place + 2].tolist())
        return list(zip(map(self._sizes.__getitem__, steps[own].tolist()), less[own].tolist(), strict=True))


def best_of_steps(steps: np.ndarray, worth: np.ndarray) -> np.ndarray:
    """The best path through some steps only: their places, int64 [P].

    Args:
        steps: int64 [E, 4] as from `steps_near_best`.
        worth: float64 [E], their values.
    """
    codes = steps[:, ::2] * (steps[:, 3].max(initial=0) + 1) + steps[:, 1::2]
    cells, places = np.unique(codes, return_inverse=True)
    starts, ends = places.reshape(codes.shape).T.tolist()
    best, last = [0.0] + [-np.inf] * len(cells), [0] * len(cells)
    for step, (start, end, value) in enumerate(zip(starts, ends, worth.tolist(), strict=True)):
        if best[start] + value > best[end]:
            best[end], last[end] = best[start] + value, step
    cell, path = len(cells) - 1, []
    while cell > 0:
        path.append(last[cell])
        cell = starts[path[-1]]
    return np.array(path[::-1], np.int64)


def _sizes(most: int) -> np.ndarray:
    """Sentences of both sides in each step, int64 [2 + most * most, 2]; of equally good ones the first is
    taken."""
    sizes = range(1, most + 1)
    return np.array([(1, 0), (0, 1), *((a, b) for a in sizes for b in sizes)])


def _rows(x: RunsBefore, y: RunsBefore, band: Band) -> Iterator[Rows]:
    """Find the best paths to all cells, some rows after the other."""
    low, high = band.low, band.high
    most, top = len(x.scales), 0
    known, corner = np.full((most, most), -np.inf), 0
    taken, sums = slice(0), y.sums[:0]
    while top < len(low):
        start = int(low[top])
        height = max(1, _AT_ONCE // (most**2 * int(high[top] - start + 1)))
        rows = slice(top, min(top + height, len(low)))
        columns = slice(start, int(high[rows.stop - 1]) + 1)
        needed = slice(max(start - most, 0), columns.stop - 1)
        if needed != taken:
            taken, sums = needed, y.sums[needed].astype(np.float64)
        by_step = _by_step(x, y, rows, columns, sums)
        count, _, width = by_step.shape
        before = known[-most:, start - corner :][:, : most + width]
        known, corner = np.full((most + count, most + width), -np.inf), start
        known[:most, : before.shape[1]] = before
        windows = _before(known, most, (count, width))
        aligned = by_step[:, 2:].reshape(count, most, most, width)
        spans = zip((low[rows] - start).tolist(), (high[rows] + 1 - start).tolist(), strict=True)
        for i, (left, right) in enumerate(spans):
            by_step[i, 0] = known[most + i - 1, most:]
            np.add(aligned[i], windows[i], out=aligned[i])
            best = np.maximum.reduce(by_step[i])
            if top + i == 0:
                best[0] = 0
            np.maximum.accumulate(best[left:right], out=known[most + i, most + left : most + right])
        by_step[:, 1] = known[most:, most - 1 : -1]
        yield Rows((top, start), known[most:, most:], by_step)
        top = rows.stop


def _before(known: np.ndarray, most: int, shape: tuple[int, int]) -> np.ndarray:
    """The values of the cells before others, a view [B, S, S, C]: for each cell those from which a step of
    1 to S sentences of both sides leads to it.

    Args:
        known: float64 [S + B, S + C].
        most: S.
        shape: B and C.
    """
    row, cell = known.strides
    offset, strides = (most - 1) * (row + cell), (row, -row, -cell, cell)
    return np.ndarray((shape[0], most, most, shape[1]), known.dtype, known, offset, strides)


def _by_step(x: RunsBefore, y: RunsBefore, rows: slice, columns: slice, right: np.ndarray) -> np.ndarray:
    """The values of the last steps to some cells, float64 [B, 2 + S * S, C]; -inf where one side has no
    sentence, and any number for runs that begin before the document.

    Args:
        right: float64, `y.sums` of the columns, and of the S before them, as far as there are.
    """
    most, count, width = len(x.scales), rows.stop - rows.start, columns.stop - columns.start
    products = np.zeros((most + count - 1, most + width - 1), np.float32)
    left = x.sums[max(rows.start - most, 0) : rows.stop - 1].astype(np.float64)
    dots = products[len(products) - len(left) :, products.shape[1] - len(right) :]
    wide = max(1, _ALONE // (_TALL * left.shape[1]))
    for i, j in itertools.product(range(0, len(left), _TALL), range(0, len(right), wide)):
        dots[i : i + _TALL, j : j + wide] = left[i : i + _TALL] @ right[j : j + wide].T
    by_row = np.empty((len(products), most, width), np.float32)
    cosines = np.empty((count, most, most, width), np.float32)
    for size in range(most):
        _add(products[:, most - 1 - size :][:, :width], by_row, size)
    by_row *= y.scales[:, columns]
    for size in range(most):
        _add(by_row[most - 1 - size :][:count], cosines, size)
    cosines *= x.scales[:, rows].T[:, :, None, None]
    worth = values(cosines, x.lengths[:, rows].T[:, :, None, None], y.lengths[:, columns])
    worth += x.gains[:, rows].T[:, :, None, None]
    found = np.empty((count, 2 + most**2, width))
    found[:, :2] = -np.inf
    np.add(worth, y.gains[:, columns], out=found[:, 2:].reshape(worth.shape))
    return found


def _add(one: np.ndarray, sums: np.ndarray, size: int) -> None:
    """Make the sum at place `size` of dimension 1 that of the place before, and of one more."""
    if size:
        np.add(sums[:, size - 1], one, out=sums[:, size])
    else:
        sums[:, 0] = one
