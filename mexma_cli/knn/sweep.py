"""One pass over all tiles of the similarity matrix, looked at along rows and along columns.

Every row and every column has a list of its k best exact cosines so far. The numbers of a tile are estimates
with a known largest error (blocks.py). A pair is computed exactly if, with this error, it may enter a list;
other pairs cannot. So no neighbour is missed, and every computed pair is checked against its bound.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from mexma_cli.knn import kernels, scanning, tiles
from mexma_cli.knn.arithmetic import Arithmetic
from mexma_cli.knn.blocks import Block, Side
from mexma_cli.knn.device import Device, DeviceHits, OnDevice
from mexma_cli.knn.journal import Journal, Place
from mexma_cli.knn.scanning import Columns, Lists, Rows
from mexma_cli.knn.tiles import Buffers, Tile, groups_of, pieces_of
from mexma_cli.numerics.threads import InOrder, one_thread_each

_QUEUE = 1 << 18  # hits for columns that a thread may have found before they are merged
_FIRST_ROWS = 64  # of a piece, that are looked at before a column has any list
_COPIES = 1 << 25  # bytes that a thread's product takes besides its result, at most


def bytes_needed(n: int, m: int, dim: int, k: int, rows: int) -> int:
    """Memory of a search with `rows` rows of x at a time: results, lists, a block of either side, a tile."""
    lists = 20 * (n * min(k, m) + m * min(k, n))  # a key of 8 bytes, then a score and an id
    y_block = min(m, tiles.Y_TILE) * (10 * dim + 32)
    tile = 4 * min(n, tiles.X_TILE) * min(m, tiles.Y_TILE)
    tile += torch.get_num_threads() * min(_COPIES, 4 * n * m)
    queues = pieces_of(tiles.X_TILE) * _QUEUE * 12
    return (
        lists
        + 8 * (n + m)
        + rows * (10 * dim + 32)
        + y_block
        + tile
        + queues
        + 4 * tiles.GROUPS * tiles.Y_TILE
    )


class Sweep:
    """One pass over all tiles: y inside x, so that only a part of x is ever held.

    Attributes:
        computed: Pairs that were computed exactly.
        broken: Whether the estimate of one of them was worse than its bound says.
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
        # After one block of up to 32 MiB was freed, glibc keeps such blocks for reuse: int8's products.
        torch.empty((1 << 25) - (1 << 16), dtype=torch.uint8)
        most = min(tiles.PIECE, len(left)) * min(tiles.Y_TILE, len(right))
        self.buffers = Buffers(lambda: arithmetic.buffer(most))
        self.device = Device(arithmetic) if arithmetic.device else None
        pieces = range(pieces_of(min(tiles.X_TILE, len(left))))
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
        high, wide = tiles.X_TILE, tiles.Y_TILE
        across = -(-m // wide)
        in_all = -(-n // high) * across
        rows, top, start = place
        while top < n:
            x = self.left.block(top, min(top + rows, n), self.arithmetic, *self.centres)
            while start < m:
                take = self._taker(self._y_block(start, min(start + wide, m)), start, in_order)
                for at in range(0, len(x), high):
                    take(x.part(at, at + high), top + at)
                    if self.broken:
                        return
                    if on_progress is not None:
                        before = top // high * across + start // wide * -(-len(x) // high)
                        on_progress(before + at // high + 1, in_all)
                del take  # and its rows of y, before the next are read
                start += wide
                if journal and start < m and journal.due():
                    journal.save(Place(rows, top, start), self.forward, self.backward)
            del x
            top, start = top + rows, 0
            if journal and top < n and journal.due():
                journal.save(Place(rows, top, start), self.forward, self.backward)

    def _y_block(self, start: int, stop: int) -> Block:
        block = self.right.block(start, stop, self.arithmetic, *self.centres[::-1])
        block.bias[:] -= self.offset
        return block

    def _taker(
        self, y: Block, first_column: int, in_order: InOrder[int, object]
    ) -> Callable[[Block, int], None]:
        """A function that searches all pairs of rows of y with a block of x, and updates both lists.

        It takes the block and the number of its first row.
        """
        columns = self.backward[first_column : first_column + len(y)]
        if self.device is not None:
            there = self.device.put(y)
            return lambda x, first: self._find(x, y, there, columns, (first, first_column), in_order)
        multiply = self.arithmetic.product(y.low, y.step, tiles.PIECE)

        def take(x: Block, first: int) -> None:
            tile = Tile(x, y, self.spread, multiply, self.buffers, in_order)
            self._scan(tile, columns, (first, first_column))

        return take

    def _scan(self, tile: Tile, columns: np.ndarray, ids: tuple[int, int]) -> None:
        """Select the pairs of a tile that may be near, and compute them."""
        x, y = tile.x, tile.y
        rows = self.forward[ids[0] : ids[0] + len(x)]
        floors = tile.column_floors(columns)
        counts = np.zeros((len(self.queues), 2), dtype=np.int64)
        places, ends = tile.borders[:-1], tile.borders[1:]
        found = [0] * len(places)
        groups = groups_of(rows.shape[1], len(y))
        # A column's first rows improve its bound most: until it has a list, rows are merged more often.
        at_once = len(x) if columns[:, 0].min(initial=0) > kernels.EMPTY else _FIRST_ROWS
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
                    Rows(x.unit[own], x.step[own], x.bias[own], x.length[own], tile.slack[own]),
                    Columns(y.unit, y.bias, y.error, bound),
                    np.empty(groups, dtype=np.float32),
                    Lists(rows[own], worst, (ids[0] + own.start, ids[1]), *self.queues[piece], counts[piece]),
                    (places[piece] - own.start, min(places[piece] + at_once, ends[piece]) - own.start),
                )
                places[piece] = own.start + done
                if places[piece] == ends[piece]:
                    tile.drop(piece)

            tile.each_piece(scan)
            for (keys, which), count in zip(self.queues, found, strict=False):
                scanning.merge(columns, keys[:count], which[:count])
        self._count(counts)

    def _find(
        self,
        x: Block,
        y: Block,
        there: OnDevice,
        columns: np.ndarray,
        ids: tuple[int, int],
        in_order: InOrder[int, object],
    ) -> None:
        """Let the device select the pairs that may be near, and compute them here."""
        assert self.device is not None
        rows, slack = self.forward[ids[0] : ids[0] + len(x)], x.slack(y)
        bounds = kernels.scores_of(rows[:, 0]), kernels.scores_of(columns[:, 0])
        if min(bounds[0].min(initial=0), bounds[1].min(initial=0)) == -np.inf:
            floors = self.device.floors(x, there, slack, (rows.shape[1], columns.shape[1]))
            bounds = np.maximum(bounds[0], floors[0]), np.maximum(bounds[1], floors[1])
        bound = bounds[1] - y.bias
        counts = np.zeros((len(self.queues), 2), dtype=np.int64)
        for found in self.device.near(x, there, slack, bounds[0], bound, _QUEUE):
            worst = columns[:, 0].copy()
            # Each thread has rows of its own, about as many pairs as the others, and a queue for columns.
            cuts = np.linspace(0, found.pairs.shape[1], len(self.queues) + 1).astype(int)
            cuts[1:-1] = np.searchsorted(found.pairs[0], found.pairs[0, np.minimum(cuts[1:-1], cuts[-1] - 1)])
            borders = cuts.tolist()

            def compute(
                piece: int, found: DeviceHits = found, borders: list[int] = borders, worst: np.ndarray = worst
            ) -> int:
                own = slice(borders[piece], borders[piece + 1])
                count: int = scanning.compute(
                    (found.pairs[:, own], found.estimates[own]),
                    self.spread,
                    Rows(x.unit, x.step, x.bias, x.length, slack),
                    Columns(y.unit, y.bias, y.error, bound),
                    Lists(rows, worst, ids, *self.queues[piece], counts[piece]),
                )
                return count

            sizes = list(in_order(compute, range(len(self.queues))))
            for (keys, which), count in zip(self.queues, sizes, strict=True):
                scanning.merge(columns, keys[:count], which[:count])
        self._count(counts)

    def _count(self, counts: np.ndarray) -> None:
        computed, broken = counts.sum(axis=0).tolist()
        self.computed += computed
        self.broken = broken > 0
