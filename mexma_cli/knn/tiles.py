"""The exact search: one pass over the tiles of the similarity matrix, looked at along rows and along columns.

Every row and every column has a list of its k best exact cosines so far. The numbers of a tile are estimates
with a known largest error (products.py). A pair is computed exactly if, with this error, it may enter a list;
other pairs cannot. So no neighbour is missed, and every computed pair is checked against its bound.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from queue import SimpleQueue
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from mexma_cli.errors import MexmaError
from mexma_cli.knn.choice import choose
from mexma_cli.knn.journal import Journal, Place
from mexma_cli.knn.keys import EMPTY, scores_of
from mexma_cli.knn.neighbours import TooLittleMemory
from mexma_cli.knn.products import Block, Float32, Multiply
from mexma_cli.knn.sides import Side
from mexma_cli.knn.units import PAIRS, Limits, Pairs
from mexma_cli.numerics.threads import InOrder, one_thread_each, threads
from mexma_cli.text import amounts

log = logging.getLogger(__name__)

X_TILE, Y_TILE = 512, 8192
"""Rows of x that a thread multiplies at once, and rows of y; so few that their estimates are still in the
processor's cache when they are looked at."""
X_ROWS = 1 << 16
"""Rows of x that are held at once where the memory has no limit; more would not make it faster."""
_GROUPS, _LAYERS = 128, 16
"""For a first limit: groups of estimates of which maxima are taken, and estimates in each, at most."""
_COPIES = 1 << 25  # bytes that a thread's product takes besides its result, at most
_PAIR_BYTES = 96  # of a pair while it is computed


def bytes_needed(n: int, m: int, dim: int, k: int, rows: int) -> int:
    """Memory of a search with `rows` rows of x at a time: results, lists, a block of either side, tiles."""
    lists = 20 * (n * min(k, m) + m * min(k, n))  # a key of 8 bytes, then a score and an id
    blocks = (rows + min(m, Y_TILE)) * (8 * dim + 48)
    thread = 4 * min(n, X_TILE) * min(m, Y_TILE) + min(_COPIES, 4 * n * m) + _PAIR_BYTES * PAIRS
    return lists + 8 * (n + m) + blocks + threads() * thread


def least_bytes(n: int, m: int, dim: int, k: int) -> int:
    """Bytes without which `knn` of n and m rows is refused."""
    return bytes_needed(n, m, dim, k, min(n, X_TILE))


def search(
    left: Side,
    right: Side,
    forward: np.ndarray,
    backward: np.ndarray,
    memory: int | None = None,
    journal: Journal | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> None:
    """Find the nearest of all rows of both sides in the other.

    An estimate that is worse than its bound says ends the pass, and the search starts again in float32.

    Args:
        forward, backward: Keys, int64 [n, k] and [m, k'], all EMPTY; become the neighbours', ascending.
        memory, journal, on_progress: As for `exact.knn`.

    Raises:
        TooLittleMemory: It cannot be done in that much memory.
        MexmaError: This machine has no such device as `computing_on` names.
        ValueError: A vector is not finite.
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
    sides, lists = (left, right), (forward, backward)
    product = choose(sides, size[:2], k)
    found = Search(sides, lists, product)
    try:
        found.run(place, journal, on_progress)
    except product.memory_errors:
        raise MexmaError(
            "the memory of the GPU is full", "free some of it, or search without it: --device cpu"
        ) from None
    if found.broken:
        log.warning("products here are less exact than they should be: once more in float32")
        forward.fill(EMPTY)
        backward.fill(EMPTY)
        start = Place(place.rows, 0, 0)
        if journal:
            journal.save(start, forward, backward)  # or a later entry would rest on the wrong lists
        Search(sides, lists, Float32()).run(start, journal, on_progress)


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
    row = bytes_needed(n, m, dim, k, 1) - bytes_needed(n, m, dim, k, 0)
    return max(min(n, X_TILE), spare // row // X_TILE * X_TILE)


class Rows(NamedTuple):
    """Some rows of a side: the number of the first, unit vectors, and these prepared for the product."""

    first: int
    unit: np.ndarray
    block: Block


class Search:
    """One pass over all tiles: y inside x, so that only a part of x is ever held.

    Attributes:
        computed: Pairs that were computed exactly.
        broken: Whether the estimate of one of them was worse than its bound says.
    """

    def __init__(
        self, sides: tuple[Side, Side], lists: tuple[np.ndarray, np.ndarray], product: Float32
    ) -> None:
        self.product, self.computed, self.broken = product, 0, False
        self._sides, self._lists, self._lock = sides, lists, Lock()
        self._memory: SimpleQueue[Any] = SimpleQueue()
        for _ in range(threads()):
            self._memory.put(product.memory(min(X_TILE, len(sides[0])), min(Y_TILE, len(sides[1]))))

    def run(
        self,
        place: Place,
        journal: Journal | None = None,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> None:
        """Go over all tiles from a place on."""
        with one_thread_each(threads()) as in_order:
            self._run(in_order, place, journal, on_progress)

    def _run(
        self,
        in_order: InOrder[Any, Any],
        place: Place,
        journal: Journal | None,
        on_progress: Callable[[int, int], None] | None,
    ) -> None:
        (left, right), (n, m) = self._sides, map(len, self._sides)
        across = -(-m // Y_TILE)
        in_all = -(-n // X_TILE) * across
        rows, top, start = place
        while top < n:
            unit = left.units(top, min(top + rows, n))

            def prepared(first: int, unit: np.ndarray = unit, top: int = top) -> Rows:
                part = unit[first : first + X_TILE]
                return Rows(top + first, part, self.product.block(part, 0))

            pieces = list(in_order(prepared, range(0, len(unit), X_TILE)))
            while start < m:
                other = right.units(start, min(start + Y_TILE, m))
                y = Rows(start, other, self.product.block(other, 1))
                multiply = self.product.against(y.block.low)

                def search(x: Rows, y: Rows = y, multiply: Multiply = multiply) -> None:
                    self._tile(x, y, multiply)

                before = top // X_TILE * across + start // Y_TILE * len(pieces)
                for done, _ in enumerate(in_order(search, pieces), before + 1):
                    if on_progress is not None:
                        on_progress(done, in_all)
                if self.broken:
                    return
                start += Y_TILE
                if journal and start < m and journal.due():
                    journal.save(Place(rows, top, start), *self._lists)
            top, start = top + rows, 0
            del pieces, unit, prepared  # before the next are read
            if journal and top < n and journal.due():
                journal.save(Place(rows, top, start), *self._lists)

    def _tile(self, x: Rows, y: Rows, multiply: Multiply) -> None:
        """Search all pairs of some rows of x with some of y."""
        memory = self._memory.get()
        try:
            tile = multiply(x.block.low, memory)
            slacks = tuple(
                own.error * other.reach + own.loose for own, other in ((x.block, y.block), (y.block, x.block))
            )
            for pairs in self.product.near(tile, *self._limits(tile, x, y, slacks)):
                self._compute(pairs, x, y, slacks)
        finally:
            self._memory.put(memory)

    def _limits(self, tile: Any, x: Rows, y: Rows, slacks: tuple[np.ndarray, ...]) -> tuple[Limits, Limits]:
        """How large an estimate must be so that its pair may be among the best of its row or column."""
        spread = self.product.spread
        sides = (x, y)
        bounds, above = [], [side.block.bias + slack for side, slack in zip(sides, slacks, strict=True)]
        for own, (side, keys) in enumerate(zip(sides, self._lists, strict=True)):
            kth = scores_of(keys[side.first : side.first + len(side.unit), 0])
            if kth.min(initial=0) == -np.inf:
                lower = [side.block.bias - slack for side, slack in zip(sides, slacks, strict=True)]
                lower[own] -= spread * x.block.reach * y.block.reach
                kth = np.maximum(kth, self._floors(tile, 1 - own, keys.shape[1], lower[own], lower[1 - own]))
            bounds.append(np.maximum(kth, np.float32(-2)))  # cosines are larger, and -inf is no number to add
        limits = []
        for own in (0, 1):
            need, others = bounds[own] - above[own], above[1 - own]
            if spread:  # the number that is stored may be smaller than what it stands for
                ends = (np.abs(need - end) for end in (others.min(), others.max()))
                need = need - spread * np.maximum(*ends)
            limits.append(Limits(need, above[own]))
        return limits[0], limits[1]

    def _floors(self, tile: Any, axis: int, k: int, own: np.ndarray, other: np.ndarray) -> np.ndarray:
        """Lower bounds of the k-th best cosine along an axis of a tile: of the maxima of groups, the k-th.

        Args:
            own, other: float32, what the lower bound of a cosine is more than an estimate, of the rows that
                are asked for, and of those along the axis.

        Returns:
            float32 [length of `own`]; -inf where the axis is too short.
        """
        size = len(other)
        groups = min(size, max(_GROUPS, 4 * k))
        layers = min(size // max(groups, 1), max(_LAYERS, 4 * k))
        if groups < k or not layers:
            return np.full(len(own), -np.inf, np.float32)
        whole = groups * layers
        at_once, kth = max(1, PAIRS // whole), np.empty(len(own), np.float32)
        for start in range(0, len(own), at_once):  # in memory that stays in the cache
            some = slice(start, start + at_once)
            if axis:
                lower = self.product.here(tile[some, :whole]) + other[:whole]
                maxima = lower.reshape(-1, layers, groups).max(axis=1)
            else:
                lower = self.product.here(tile[:whole, some]) + other[:whole, None]
                maxima = lower.reshape(layers, groups, -1).max(axis=0)
            kth[some] = np.partition(maxima, groups - k, axis=axis).take(groups - k, axis=axis)
        return kth + own

    def _compute(self, pairs: Pairs, x: Rows, y: Rows, slacks: tuple[np.ndarray, ...]) -> None:
        """Compute the cosines of pairs, and put them into the lists."""
        rows, columns, estimates = pairs
        cosines = self.product.loops.dots(x.unit, y.unit, rows, columns)
        error = np.abs(cosines - (estimates + (x.block.bias[rows] + y.block.bias[columns])))
        bound = np.abs(estimates) * self.product.spread + (slacks[0][rows] + slacks[1][columns])
        broken = bool((error > bound).any())
        rows, columns = rows + x.first, columns + y.first
        with self._lock:
            self.product.loops.offer(self._lists[0], rows, columns, cosines)
            self.product.loops.offer(self._lists[1], columns, rows, cosines)
            self.computed += len(cosines)
            self.broken = self.broken or broken
