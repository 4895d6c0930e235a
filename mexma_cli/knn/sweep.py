"""One pass over all tiles of the similarity matrix, looked at along rows and along columns.

Every row and every column has a list of its k best exact cosines so far. The numbers of a tile are estimates
with a known largest error (blocks.py). A pair is computed exactly if, with this error, it may enter a list;
other pairs cannot. So no neighbour is missed, and every computed pair is checked against its bound.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import torch

from mexma_cli.knn import scanning, tiles
from mexma_cli.knn.arithmetic import FLOAT32, Arithmetic, choose_arithmetic
from mexma_cli.knn.blocks import Block, Frame, Sample, block
from mexma_cli.knn.device import Device, DeviceHits, OnDevice
from mexma_cli.knn.journal import Journal, Place
from mexma_cli.knn.keys import EMPTY, scores_of
from mexma_cli.knn.neighbours import TooLittleMemory
from mexma_cli.knn.scanning import Columns, Lists, Rows
from mexma_cli.knn.sides import Side
from mexma_cli.knn.tiles import Buffers, Tile, groups_of, pieces_of
from mexma_cli.numerics.threads import InOrder, one_thread_each
from mexma_cli.text import amounts

log = logging.getLogger(__name__)

X_ROWS = 1 << 16
"""Rows of x that are held at once where the memory has no limit; more would not make it faster."""
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


def search(
    left: Side,
    right: Side,
    forward: np.ndarray,
    backward: np.ndarray,
    memory: int | None,
    journal: Journal | None,
    on_progress: Callable[[int, int], None] | None,
) -> None:
    """Find the nearest of all rows of both sides in the other.

    An estimate that is worse than its bound says ends the pass, and the search starts again in float32.

    Args:
        forward, backward: Keys, int64 [n, k] and [m, k'], all EMPTY; become the neighbours', ascending.
        memory, journal, on_progress: As for `exact.knn`.

    Raises:
        TooLittleMemory: It cannot be done in that much memory.
        MexmaError: This machine has no such device as `computing_on` names.
    """
    k = max(forward.shape[1], backward.shape[1])
    size = len(left), len(right), left.dim, k
    rows = _rows_at_once(*size, memory)
    kept = journal.load(forward, backward) if journal else None
    place = Place(*kept) if kept else Place(rows, 0, 0)
    if memory is not None and place.rows > rows:
        begun_with = bytes_needed(*size, place.rows)
        raise TooLittleMemory(
            f"this search was begun with more memory, {amounts.size(begun_with)}",
            begun_with,
            "give that much to go on with it, or remove its folder to start anew",
        )
    sample = Sample(left, right)
    sweep = Sweep(sample, forward, backward, arithmetic_for(sample, (len(left), len(right)), k))
    sweep.run(place, journal, on_progress)
    if sweep.broken:
        log.warning("products here are less exact than they should be: once more in float32")
        forward.fill(EMPTY)
        backward.fill(EMPTY)
        start = Place(place.rows, 0, 0)
        if journal:
            journal.save(start, forward, backward)  # or a later entry would rest on the wrong lists
        Sweep(sample, forward, backward, FLOAT32).run(start, journal, on_progress)


def arithmetic_for(sample: Sample, sizes: tuple[int, int], k: int) -> Arithmetic:
    """The fastest arithmetic for sides of these sizes whose rows are like those of the sample."""
    dim = sample.sides[0].dim
    return choose_arithmetic(sizes[0] * sizes[1] * dim, dim, functools.partial(sample.pairs, sizes, k))


def least_bytes(n: int, m: int, dim: int, k: int) -> int:
    """Bytes without which `knn` of n and m rows is refused."""
    return bytes_needed(n, m, dim, k, min(n, tiles.X_TILE))


def _rows_at_once(n: int, m: int, dim: int, k: int, memory: int | None) -> int:
    """Rows of x to hold: as many as fit."""
    most = min(n, X_ROWS)
    if memory is None or bytes_needed(n, m, dim, k, most) <= memory:
        return most
    needed = least_bytes(n, m, dim, k)
    if needed > memory:
        raise TooLittleMemory(
            f"{k} neighbours of {n:,} and {m:,} rows of {dim} dimensions need {amounts.size(needed)}, "
            f"{amounts.size(max(memory, 0))} are left for them",
            needed,
        )
    spare = memory - bytes_needed(n, m, dim, k, 0)
    return max(min(n, tiles.X_TILE), spare // (10 * dim + 32) // tiles.X_TILE * tiles.X_TILE)


class Sweep:
    """One pass over all tiles: y inside x, so that only a part of x is ever held.

    Attributes:
        computed: Pairs that were computed exactly.
        broken: Whether the estimate of one of them was worse than its bound says.
    """

    def __init__(
        self, sample: Sample, forward: np.ndarray, backward: np.ndarray, arithmetic: Arithmetic
    ) -> None:
        self.arithmetic = arithmetic
        self.spread = np.float32(arithmetic.spread)
        self.left, self.right = sample.sides
        self.forward, self.backward = forward, backward
        self.computed, self.broken = 0, False
        self.frames = sample.frames(replace(arithmetic, width=None))
        self.narrow = sample.frames(arithmetic) if arithmetic.width else None
        self.offset = np.float32(self.frames[0].centre @ self.frames[1].centre)
        # After one block of up to 32 MiB was freed, glibc keeps such blocks for reuse: int8's products.
        torch.empty((1 << 25) - (1 << 16), dtype=torch.uint8)
        most = min(tiles.PIECE, len(self.left)) * min(tiles.Y_TILE, len(self.right))
        self.buffers = Buffers(lambda: arithmetic.buffer(most))
        self.device = Device(arithmetic) if arithmetic.device else None
        pieces = range(pieces_of(min(tiles.X_TILE, len(self.left))))
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
            unit = self.left.units(top, min(top + rows, n))
            x = self._x_block(unit, start)
            while start < m:
                for done in self._row_of_tiles(unit, x, (top, start), in_order):
                    if on_progress is not None:
                        before = top // high * across + start // wide * -(-len(unit) // high)
                        on_progress(before + done, in_all)
                if self.broken:
                    return
                if not start and self.narrow:
                    del x  # before the next is made
                    x = self._x_block(unit, wide)
                start += wide
                if journal and start < m and journal.due():
                    journal.save(Place(rows, top, start), self.forward, self.backward)
            del x, unit
            top, start = top + rows, 0
            if journal and top < n and journal.due():
                journal.save(Place(rows, top, start), self.forward, self.backward)

    def _x_block(self, unit: np.ndarray, start: int) -> Block:
        return block(unit, (self.narrow if start and self.narrow else self.frames)[0])

    def _row_of_tiles(
        self, unit: np.ndarray, x: Block, ids: tuple[int, int], in_order: InOrder[int, object]
    ) -> Iterator[int]:
        """Search the rows that are held of x in some rows of y; gives the number of tiles done.

        Where lists are still empty, in the first tiles of a row or a column, narrow estimates would let too
        many pairs pass.

        Args:
            unit: The unit vectors of x. ids: numbers of the first rows of x and of y.
        """
        y = self.right.units(ids[1], min(ids[1] + tiles.Y_TILE, len(self.right)))
        parts = [(x, self.frames)]
        if ids[1] and self.narrow:
            known = 0 if ids[0] else tiles.X_TILE
            parts = [
                (block(unit[:known], self.frames[0]), self.frames),
                (x.part(known, len(x)), self.narrow),
            ]
        done = 0
        for part, frames in parts:
            if not len(part):
                continue
            take = self._taker(self._y_block(y, frames[1]), ids[1], in_order)
            for at in range(0, len(part), tiles.X_TILE):
                take(part.part(at, at + tiles.X_TILE), ids[0] + done * tiles.X_TILE)
                if self.broken:
                    return
                done += 1
                yield done

    def _y_block(self, unit: np.ndarray, frame: Frame) -> Block:
        y = block(unit, frame)
        y.bias[:] -= self.offset
        return y

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
        at_once = len(x) if columns[:, 0].min(initial=0) > EMPTY else _FIRST_ROWS
        while places != ends:
            there = _columns(y, np.maximum(floors, scores_of(columns[:, 0])) - y.bias)
            worst = columns[:, 0].copy()

            def scan(piece: int, there: Columns = there, worst: np.ndarray = worst) -> None:
                if places[piece] == ends[piece]:
                    found[piece] = 0
                    return
                own = slice(tile.borders[piece], tile.borders[piece + 1])
                done, found[piece] = scanning.scan(
                    tile.piece(piece),
                    self.spread,
                    _rows(x.part(own.start, own.stop), tile.slack[own]),
                    there,
                    groups,
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
        bounds = scores_of(rows[:, 0]), scores_of(columns[:, 0])
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
                return scanning.compute(
                    (found.pairs[0, own], found.pairs[1, own], found.estimates[own]),
                    self.spread,
                    _rows(x, slack),
                    _columns(y, bound),
                    Lists(rows, worst, ids, *self.queues[piece], counts[piece]),
                )

            sizes = list(in_order(compute, range(len(self.queues))))
            for (keys, which), count in zip(self.queues, sizes, strict=True):
                scanning.merge(columns, keys[:count], which[:count])
        self._count(counts)

    def _count(self, counts: np.ndarray) -> None:
        computed, broken = counts.sum(axis=0).tolist()
        self.computed += computed
        self.broken = broken > 0


def _rows(x: Block, slack: np.ndarray) -> Rows:
    return Rows(x.unit, x.rest, np.stack([x.step, x.bias, x.as_row, slack, x.length]))


def _columns(y: Block, bound: np.ndarray) -> Columns:
    return Columns(y.unit, y.rest, np.stack([y.bias, y.as_column, bound, y.error]))
