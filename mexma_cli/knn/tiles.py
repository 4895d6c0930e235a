"""Estimates of all products of some rows of one side with some of the other, made on the processor."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import torch

from mexma_cli.knn import scanning
from mexma_cli.knn.arithmetic import Product
from mexma_cli.knn.blocks import Block
from mexma_cli.knn.keys import EMPTY
from mexma_cli.numerics.threads import InOrder, in_slices

X_TILE, Y_TILE = 2048, 8192
PIECE = 512
"""Rows of x that a thread multiplies at once: so few that their estimates are still in the processor's cache
when they are looked at."""
GROUPS = 128


class Buffers:
    """Memory for pieces of tiles, which is reused: fresh pages would take as long as the product itself, and
    the C library would keep up to three times the memory in use."""

    def __init__(self, make: Callable[[], np.ndarray | None]) -> None:
        self._make = make
        self._free: list[np.ndarray | None] = []

    def take(self) -> np.ndarray | None:
        """A buffer that is not in use; any thread may ask."""
        try:
            return self._free.pop()  # the one used last is in the cache
        except IndexError:
            return self._make()

    def give_back(self, buffer: np.ndarray | None) -> None:
        self._free.append(buffer)


def pieces_of(rows: int) -> int:
    """The number of pieces that a tile of so many rows is cut into: at least one for each thread."""
    return max(torch.get_num_threads(), -(-rows // PIECE))


def groups_of(k: int, length: int) -> int:
    """The number of groups of `length` numbers for a lower bound of the k-th best; 0: not worth it."""
    groups = max(GROUPS, 4 * k)
    return groups if length >= 2 * groups else 0


class Tile:
    """Estimates of all products of some rows of x with some of y, in pieces, one for each thread."""

    def __init__(
        self,
        x: Block,
        y: Block,
        spread: np.float32,
        multiply: Product,
        buffers: Buffers,
        in_order: InOrder[int, object],
    ) -> None:
        self.x, self.y = x, y
        self.slack = x.slack(y)
        self.borders = np.linspace(0, len(x), pieces_of(len(x)) + 1).astype(int).tolist()
        self._spread = spread
        self._in_order = in_order
        self._multiply = multiply
        self._buffers = buffers
        self._made: dict[int, tuple[np.ndarray, np.ndarray | None]] = {}

    def piece(self, number: int) -> np.ndarray:
        """Estimates of a piece; kept until it is dropped."""
        if number not in self._made:
            buffer = self._buffers.take()
            rows = self.x.low[self.borders[number] : self.borders[number + 1]]
            self._made[number] = self._multiply(rows, buffer), buffer
        return self._made[number][0]

    def drop(self, number: int) -> None:
        """Give a piece's memory back."""
        self._buffers.give_back(self._made.pop(number)[1])

    def each_piece(self, task: Callable[[int], object]) -> None:
        """Run `task(0)` to `task(pieces - 1)`, each on a thread."""
        for _ in self._in_order(task, range(len(self.borders) - 1)):
            pass

    def column_floors(self, columns: np.ndarray) -> np.ndarray:
        """Lower bounds of the k-th best of each column, float32 [c]; -inf where nothing is known.

        Args:
            columns: int64 [c, k], keys of the best that have been found; floors help only the first time.
        """
        x, y = self.x, self.y
        floors = np.full(len(y), -np.inf, dtype=np.float32)
        groups, k = groups_of(columns.shape[1], len(x)), columns.shape[1]
        if not groups or not (columns[:, 0] == EMPTY).any():
            return floors

        self.each_piece(self.piece)

        stats = np.stack([x.step, x.step * self._spread, x.as_row, x.bias - self.slack])

        def some(a: int, b: int) -> None:
            best = np.full((groups, b - a), -np.inf, dtype=np.float32)
            for number, (first, last) in enumerate(pairwise(self.borders)):
                piece = scanning.numbers_of(self.piece(number), b - a)
                scanning.column_maxima(piece, stats[:, first:last].copy(), y.as_column[a:b], a, first, best)
            for at in range(a, b, PIECE):
                part = best[:, at - a : at - a + PIECE]
                floors[at : at + part.shape[1]] = np.partition(part, -k, axis=0)[-k]

        in_slices(len(y), some, len(x) * len(y))
        return floors + y.bias
