"""Exact nearest neighbours in both directions from one pass over the similarity matrix.

LASER asks an index twice, once a direction, and so multiplies the same two matrices twice. Here every tile of
`x @ y.T` is made once, in whatever arithmetic the processor is fastest in, and looked at along its rows and
along its columns. What is kept of a row or a column is its k best exact cosines so far. A tile's number is
an estimate with a known largest error (blocks.py): pairs that might enter a list in spite of it are computed
exactly, all others certainly do not belong there. So nothing can be missed, and every pair that was computed
is checked against its bound; if the machine's arithmetic ever broke it, the search starts again in float32.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, Protocol

import numpy as np
import torch

from mexma_cli.encoder.threads import InOrder, one_thread_each
from mexma_cli.errors import MexmaError
from mexma_cli.mining import kernels, scanning
from mexma_cli.mining.arithmetic import FLOAT32, Arithmetic, choose_arithmetic
from mexma_cli.mining.blocks import Block, Side, VectorSource, pairs_expected

__all__ = ["Journal", "Neighbours", "VectorSource", "bytes_needed", "knn"]

X_TILE, Y_TILE = 2048, 8192
PIECE = 512
"""Rows of x that are multiplied at once, on a thread of their own: few enough for the C library to use the
memory of a result again for the next one, where fresh pages would cost as much as the product itself."""
X_ROWS = 1 << 16
"""Rows of x that are held at once where the memory has no limit; more would not make it faster."""
_QUEUE = 1 << 18  # hits for columns that a thread may have found before they are merged
_GROUPS = 128
_FIRST_ROWS = 64  # of a piece, that are looked at before a column has any list


@dataclass(frozen=True)
class Neighbours:
    """The nearest rows of the other side, by cosine, for every row of both sides.

    `forward_scores` float32 [N, k] and `forward_ids` int64 [N, k] belong to the rows of x and point into y;
    `backward_scores` [M, k'] and `backward_ids` [M, k'] the other way round. Each row is sorted by (score
    descending, id ascending). k is at most the number of candidates. A row that was left out has ids of -1
    and scores of -inf, and is nobody's neighbour.
    """

    forward_scores: np.ndarray
    forward_ids: np.ndarray
    backward_scores: np.ndarray
    backward_ids: np.ndarray


class Place(NamedTuple):
    """How far a search is: the next tiles are those of x from row `top` on, `rows` rows of them, with y from
    row `start` on."""

    rows: int
    top: int
    start: int


class Journal(Protocol):
    """Keeps what has been found, so that a search that was killed goes on from there."""

    def load(self, forward: np.ndarray, backward: np.ndarray) -> tuple[int, int, int] | None:
        """Fill both lists with what was kept, and return its place; None if nothing was kept."""
        ...

    def due(self) -> bool:
        """Whether it is time to keep something."""
        ...

    def save(self, place: Place, forward: np.ndarray, backward: np.ndarray) -> None:
        """Keep both lists, int64 keys. Rows of `forward` from place.top + place.rows on are empty yet."""
        ...


def knn(
    x: np.ndarray | VectorSource,
    y: np.ndarray | VectorSource,
    k: int,
    *,
    keep_x: np.ndarray | None = None,
    keep_y: np.ndarray | None = None,
    memory: int | None = None,
    journal: Journal | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> Neighbours:
    """Find the k nearest rows by cosine, from x to y and from y to x, exactly in float32.

    The result does not depend on the memory, the arithmetic or an interruption, to the last bit.

    Args:
        x, y: [N, d] and [M, d], arrays or sources that are read block by block. Rows need not be normalised;
            a row of zeros has cosine 0 with everything. Not-finite numbers are a ValueError.
        k: neighbours a row; a side with fewer rows gives as many as it has.
        keep_x, keep_y: bool [N] and [M], False for rows that take no part. Default: all take part.
        memory: bytes that the search may take, x and y themselves not counted. Default: what is fastest.
        journal: takes what has been found from time to time, and gives it back to the next run.
        on_progress: called with (tiles done, tiles in all).

    Raises:
        MexmaError: It cannot be done in that much memory.
    """
    if k < 1:
        raise ValueError(f"k must be at least 1, not {k}")
    left, right = Side(x, keep_x), Side(y, keep_y)
    if left.dim != right.dim:
        raise ValueError(f"vectors of {left.dim} and of {right.dim} dimensions")
    if len(right) > 0xFFFFFFFF or len(left) > 0xFFFFFFFF:
        raise ValueError("more than 2^32 rows")
    size = len(left), len(right), left.dim, k
    rows = _rows_at_once(*size, memory)
    forward = np.full((len(left), min(k, len(right))), kernels.EMPTY, dtype=np.int64)
    backward = np.full((len(right), min(k, len(left))), kernels.EMPTY, dtype=np.int64)
    kept = journal.load(forward, backward) if journal else None
    place = Place(*kept) if kept else Place(rows, 0, 0)
    if memory is not None and place.rows > rows:
        raise MexmaError(
            f"this search was begun with more memory, {bytes_needed(*size, place.rows) / 1e9:.1f} GB",
            "give that much to go on with it, or remove what it left to start anew",
        )
    sweep = Sweep(left, right, forward, backward, arithmetic_for(left, right, (len(left), len(right)), k))
    sweep.run(place, journal, on_progress)
    if sweep.broken:
        forward.fill(kernels.EMPTY)
        backward.fill(kernels.EMPTY)
        again = Sweep(left, right, forward, backward, FLOAT32)
        again.run(place._replace(top=0, start=0), journal, on_progress)
    return Neighbours(*unpack(forward, left, right), *unpack(backward, right, left))


def arithmetic_for(left: Side, right: Side, sizes: tuple[int, int], k: int) -> Arithmetic:
    """The fastest arithmetic for sides of these sizes whose rows are like those of left and right."""
    pairs = functools.partial(pairs_expected, left, right, sizes, k)
    return choose_arithmetic(sizes[0] * sizes[1] * left.dim, left.dim, pairs)


def bytes_needed(n: int, m: int, dim: int, k: int, rows: int) -> int:
    """Memory of a search with `rows` rows of x at a time: results, lists, a block of either side, a tile."""
    lists = 20 * (n * min(k, m) + m * min(k, n))  # a key of 8 bytes, then a score and an id
    y_block = min(m, Y_TILE) * (10 * dim + 32)
    tile = 8 * min(n, X_TILE) * min(m, Y_TILE)  # and as much again, that the C library keeps
    tile += torch.get_num_threads() * min(1 << 25, 4 * n * m)  # copies that products make
    queues = _pieces(X_TILE) * _QUEUE * 12
    return lists + 8 * (n + m) + rows * (10 * dim + 32) + y_block + tile + queues + 4 * _GROUPS * Y_TILE


def _pieces(rows: int) -> int:
    """Into how many pieces a tile of so many rows is cut: at least one for each thread."""
    return max(torch.get_num_threads(), -(-rows // PIECE))


def _rows_at_once(n: int, m: int, dim: int, k: int, memory: int | None) -> int:
    """Rows of x to hold: as many as fit."""
    most = min(n, X_ROWS)
    if memory is None or bytes_needed(n, m, dim, k, most) <= memory:
        return most
    least = min(n, X_TILE)
    needed = bytes_needed(n, m, dim, k, least)
    if needed > memory:
        raise MexmaError(
            f"{k} neighbours of {n:,} and {m:,} rows of {dim} dimensions need {needed / 1e9:.1f} GB, "
            f"{max(memory, 0) / 1e9:.1f} GB are left for them",
            "more --memory, a smaller -k, or the text in parts",
        )
    spare = memory - bytes_needed(n, m, dim, k, 0)
    return max(least, spare // (10 * dim + 32) // X_TILE * X_TILE)


class Sweep:
    """One pass over all tiles: y inside x, so that only a part of x is ever held.

    Attributes:
        computed: Pairs that were computed exactly.
        broken: Whether one of them was further from its estimate than it may be.
    """

    def __init__(
        self, left: Side, right: Side, forward: np.ndarray, backward: np.ndarray, arithmetic: Arithmetic
    ) -> None:
        self.arithmetic = arithmetic
        self.spread = np.float32(arithmetic.spread)
        self.left, self.right = left, right
        self.forward, self.backward = forward, backward
        self.computed, self.broken = 0, False
        x_centre, y_centre = left.centre(), right.centre()
        self.centres = x_centre, y_centre
        self.offset = np.float32(x_centre @ y_centre)
        # What glibc is once given back in one piece, up to 32 MiB, it keeps from then on: products' results.
        torch.empty((1 << 25) - (1 << 16), dtype=torch.uint8)
        pieces = range(_pieces(min(X_TILE, len(left))))
        self.queues = [(np.empty(_QUEUE, np.int64), np.empty(_QUEUE, np.int32)) for _ in pieces]

    def run(
        self,
        place: Place,
        journal: Journal | None = None,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> None:
        """Go over all tiles from a place on."""
        with one_thread_each(torch.get_num_threads()) as in_order:
            self._run(in_order, place, journal, on_progress)

    def _run(
        self,
        in_order: InOrder[int, object],
        place: Place,
        journal: Journal | None,
        on_progress: Callable[[int, int], None] | None,
    ) -> None:
        n, m = len(self.left), len(self.right)
        across = -(-m // Y_TILE)
        tiles = -(-n // X_TILE) * across
        rows, top, start = place
        while top < n:
            x = self._x_block(top, min(top + rows, n))
            high = -(-len(x) // X_TILE)
            while start < m:
                y = self._y_block(start, min(start + Y_TILE, m))
                multiply = self.arithmetic.product(y.low, y.step, PIECE)
                for at in range(0, len(x), X_TILE):
                    part = x.part(at, at + X_TILE)
                    self._take(Tile(part, y, self.spread, multiply, in_order), top + at, start)
                    if self.broken:
                        return
                    if on_progress is not None:
                        before = top // X_TILE * across + start // Y_TILE * high
                        on_progress(before + at // X_TILE + 1, tiles)
                start += Y_TILE
                if journal and start < m and journal.due():
                    journal.save(Place(rows, top, start), self.forward, self.backward)
            top, start = top + rows, 0
            if journal and top < n and journal.due():
                journal.save(Place(rows, top, start), self.forward, self.backward)

    def _x_block(self, start: int, stop: int) -> Block:
        return self.left.block(start, stop, self.arithmetic, *self.centres)

    def _y_block(self, start: int, stop: int) -> Block:
        block = self.right.block(start, stop, self.arithmetic, *self.centres[::-1])
        block.bias[:] -= self.offset
        return block

    def _take(self, tile: Tile, first_row: int, first_column: int) -> None:
        """Take what a tile has into both lists."""
        x, y = tile.x, tile.y
        rows = self.forward[first_row : first_row + len(x)]
        columns = self.backward[first_column : first_column + len(y)]
        floors = tile.column_floors(columns)
        counts = np.zeros((len(self.queues), 2), dtype=np.int64)
        places, ends = tile.borders[:-1], tile.borders[1:]
        found = [0] * len(places)
        groups = _groups(rows.shape[1], len(y))
        # The first rows that a column sees make its bound much better: then they are merged more often.
        at_once = X_TILE if columns[:, 0].min(initial=0) > kernels.EMPTY else _FIRST_ROWS
        while places != ends:
            bound = np.maximum(floors, kernels.scores_of(columns[:, 0])) - y.bias
            worst = columns[:, 0].copy()

            def scan(piece: int, bound: np.ndarray = bound, worst: np.ndarray = worst) -> None:
                if places[piece] == ends[piece]:
                    found[piece] = 0
                    return
                own = slice(tile.borders[piece], tile.borders[piece + 1])
                done, found[piece] = scanning.scan(
                    tile.piece(piece),
                    self.spread,
                    (x.unit[own], x.step[own], x.bias[own], x.length[own], tile.slack[own]),
                    (y.unit, y.bias, y.error),
                    bound,
                    np.empty(groups, dtype=np.float32),
                    rows[own],
                    worst,
                    (first_row + own.start, first_column),
                    self.queues[piece],
                    (places[piece] - own.start, min(places[piece] + at_once, ends[piece]) - own.start),
                    counts[piece],
                )
                places[piece] = own.start + done
                if places[piece] == ends[piece]:
                    tile.drop(piece)

            tile.each_piece(scan)
            for (keys, which), count in zip(self.queues, found, strict=False):
                scanning.merge(columns, keys[:count], which[:count])
        computed, broken = counts.sum(axis=0).tolist()
        self.computed += computed
        self.broken = broken > 0


class Tile:
    """Estimates of all products of some rows of x with some of y, in pieces, one for each thread."""

    def __init__(
        self,
        x: Block,
        y: Block,
        spread: np.float32,
        multiply: Callable[[np.ndarray], np.ndarray],
        in_order: InOrder[int, object],
    ) -> None:
        self.x, self.y = x, y
        self.slack = x.slack(y)
        pieces = _pieces(len(x))
        self.borders = np.linspace(0, len(x), pieces + 1).astype(int).tolist()
        self._spread = spread
        self._in_order = in_order
        self._multiply = multiply
        self._made: dict[int, np.ndarray] = {}

    def piece(self, number: int) -> np.ndarray:
        """Estimates of a piece; kept until it is dropped."""
        if number not in self._made:
            self._made[number] = self._multiply(self.x.low[self.borders[number] : self.borders[number + 1]])
        return self._made[number]

    def drop(self, number: int) -> None:
        """Give a piece's memory back."""
        del self._made[number]

    def each_piece(self, task: Callable[[int], object]) -> None:
        """Run `task(0)` to `task(pieces - 1)`, each on a thread."""
        for _ in self._in_order(task, range(len(self.borders) - 1)):
            pass

    def column_floors(self, columns: np.ndarray) -> np.ndarray:
        """What the k-th best of each column reaches at least, float32 [c]; -inf where nothing is known.

        Args:
            columns: int64 [c, k], keys of the best that have been found; floors help only the first time.
        """
        x, y = self.x, self.y
        floors = np.full(len(y), -np.inf, dtype=np.float32)
        groups, k = _groups(columns.shape[1], len(x)), columns.shape[1]
        if not groups or not (columns[:, 0] == kernels.EMPTY).any():
            return floors

        self.each_piece(self.piece)

        def some(a: int, b: int) -> None:
            best = np.full((groups, b - a), -np.inf, dtype=np.float32)
            for number, (first, last) in enumerate(pairwise(self.borders)):
                own, piece = slice(first, last), self.piece(number)
                stats = (x.step[own], x.bias[own], x.length[own], self.slack[own])
                scanning.column_maxima(piece[:, a:b], self._spread, stats, y.error[a:b], first, best)
            scanning.kth_best(best, k, floors[a:b])

        kernels.in_slices(len(y), some, len(x) * len(y))
        return floors + y.bias


def _groups(k: int, length: int) -> int:
    """Groups that prove a floor for the k-th best of `length` numbers; 0 where it is not worth it."""
    groups = max(_GROUPS, 4 * k)
    return groups if length >= 2 * groups else 0


def unpack(keys: np.ndarray, own: Side, other: Side) -> tuple[np.ndarray, np.ndarray]:
    """Keys of kept rows, ascending -> scores and ids of all rows, best first."""
    scores = np.full((own.rows, keys.shape[1]), -np.inf, dtype=np.float32)
    ids = np.full((own.rows, keys.shape[1]), -1, dtype=np.int64)
    for start in range(0, len(keys), X_ROWS):
        part, rows = keys[start : start + X_ROWS, ::-1], own.ids[start : start + X_ROWS]
        scores[rows] = kernels.scores_of(part)
        ids[rows] = other.ids[np.int64(0xFFFFFFFF) - (part & np.int64(0xFFFFFFFF))] if part.size else -1
    return scores, ids
