"""Exact nearest neighbours in both directions from one pass over the similarity matrix.

LASER asks an index twice, once a direction, and so multiplies the same two matrices twice. Here every tile of
`x @ y.T` is made once, in whatever arithmetic the processor is fastest in, and looked at along its rows and
along its columns. What is kept of a row or a column is its k best exact cosines so far. A tile's number is
an estimate with a known largest error (blocks.py): pairs that might enter a list in spite of it are computed
exactly, all others certainly do not belong there. So nothing can be missed, and every pair that was computed
is checked against its bound; if the machine's arithmetic ever broke it, the search starts again in float32.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import torch

from mexma_cli.errors import MexmaError
from mexma_cli.mining import kernels
from mexma_cli.mining.blocks import FLOAT32, Arithmetic, Block, Side, VectorSource, choose_arithmetic

__all__ = ["Journal", "Neighbours", "VectorSource", "bytes_needed", "knn"]

X_TILE, Y_TILE = 8192, 8192  # on two threads a fifth faster than 2048
X_ROWS = 1 << 16
"""Rows of x that are held at once where the memory has no limit; more would not make it faster."""
_QUEUE = 1 << 18  # hits for columns that a thread may have found before they are merged
_GROUPS = 128


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
    arithmetic = choose_arithmetic(len(left) * len(right) * left.dim, left.dim)
    sweep = Sweep(left, right, forward, backward, arithmetic)
    sweep.run(place, journal, on_progress)
    if sweep.broken:
        forward.fill(kernels.EMPTY)
        backward.fill(kernels.EMPTY)
        Sweep(left, right, forward, backward, FLOAT32).run(
            place._replace(top=0, start=0), journal, on_progress
        )
    return Neighbours(*unpack(forward, left, right), *unpack(backward, right, left))


def bytes_needed(n: int, m: int, dim: int, k: int, rows: int) -> int:
    """Memory of a search with `rows` rows of x at a time: results, lists, a block of either side, a tile."""
    lists = 20 * (n * min(k, m) + m * min(k, n))  # a key of 8 bytes, then a score and an id
    y_block = min(m, Y_TILE) * (10 * dim + 32)
    tile = 4 * min(n, X_TILE) * min(m, Y_TILE)
    queues = torch.get_num_threads() * _QUEUE * 12
    return lists + 8 * (n + m) + rows * (10 * dim + 32) + y_block + tile + queues + 4 * _GROUPS * Y_TILE


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
    """One pass over all tiles: y inside x, so that only a part of x is ever held."""

    def __init__(
        self, left: Side, right: Side, forward: np.ndarray, backward: np.ndarray, arithmetic: Arithmetic
    ) -> None:
        self.left, self.right = left, right
        self.forward, self.backward = forward, backward
        self.arithmetic = arithmetic
        self.spread = np.float32(arithmetic.spread)
        self.broken = False
        x_centre, y_centre = left.centre(), right.centre()
        self.centres = x_centre, y_centre
        self.offset = np.float32(x_centre @ y_centre)
        threads = torch.get_num_threads()
        self.queues = [(np.empty(_QUEUE, np.int64), np.empty(_QUEUE, np.int32)) for _ in range(threads)]
        self.tile = arithmetic.empty(min(X_TILE, len(left)) * min(Y_TILE, len(right)))

    def run(
        self,
        place: Place,
        journal: Journal | None = None,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> None:
        """Go over all tiles from a place on."""
        n, m = len(self.left), len(self.right)
        across = -(-m // Y_TILE)
        tiles = -(-n // X_TILE) * across
        rows, top, start = place
        while top < n:
            x = self._x_block(top, min(top + rows, n))
            high = -(-len(x) // X_TILE)
            while start < m:
                y = self._y_block(start, min(start + Y_TILE, m))
                for at in range(0, len(x), X_TILE):
                    self._tile(x.part(at, at + X_TILE), y, top + at, start)
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

    def _tile(self, x: Block, y: Block, first_row: int, first_column: int) -> None:
        """Estimate a tile, and take what it has into both lists."""
        arithmetic = self.arithmetic
        size = len(x) * len(y)
        tile = self.tile[:size].reshape(len(x), len(y))
        torch.matmul(arithmetic.tensor(x.low), arithmetic.tensor(y.low).T, out=arithmetic.tensor(tile))
        slack_x, slack_y = x.slack(y), y.slack(x)
        rows = self.forward[first_row : first_row + len(x)]
        columns = self.backward[first_column : first_column + len(y)]
        floors = self._column_floors(tile, x, y, columns, slack_y)
        broken = np.zeros((len(self.queues), 1), dtype=np.int64)
        parts = np.linspace(0, len(x), len(self.queues) + 1).astype(int).tolist()
        places, ends = parts[:-1], parts[1:]
        found = [0] * len(places)
        groups = _groups(rows.shape[1], len(y))
        while places != ends:
            bound = np.maximum(floors, kernels.scores_of(columns[:, 0])) - slack_y - y.bias
            worst = columns[:, 0].copy()

            def scan(part: int, bound: np.ndarray = bound, worst: np.ndarray = worst) -> None:
                places[part], found[part] = kernels.scan(
                    tile,
                    self.spread,
                    (x.unit, x.bias, slack_x),
                    (y.unit, y.bias, slack_y),
                    bound,
                    np.empty(groups, dtype=np.float32),
                    rows,
                    worst,
                    (first_row, first_column),
                    self.queues[part],
                    (places[part], ends[part]),
                    broken[part],
                )

            kernels.each(len(places), scan, size)
            for (keys, which), count in zip(self.queues, found, strict=True):
                kernels.merge(columns, keys[:count], which[:count])
        self.broken = bool(broken.any())

    def _column_floors(
        self, tile: np.ndarray, x: Block, y: Block, columns: np.ndarray, slack: np.ndarray
    ) -> np.ndarray:
        """What the k-th best of each column reaches at least, float32 [c]; -inf where nothing is known."""
        floors = np.full(len(y), -np.inf, dtype=np.float32)
        groups, k = _groups(columns.shape[1], len(x)), columns.shape[1]
        if not groups or not (columns[:, 0] == kernels.EMPTY).any():
            return floors

        def some(a: int, b: int) -> None:
            scratch = np.empty((groups, b - a), dtype=np.float32)
            kernels.column_floors(tile[:, a:b], self.spread, x.bias, scratch, k, floors[a:b])

        kernels.in_slices(len(y), some, tile.size)
        return floors + y.bias - slack


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
