"""The exact search: one pass over the tiles of the similarity matrix, looked at along rows and along columns.

Every row and every column has a list of its k best exact cosines so far. The numbers of a tile are estimates
with a known largest error (products.py). A pair is computed exactly if, with this error, it may enter a list;
other pairs cannot. So no neighbour is missed, and every computed pair is checked against its bound.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from mexma_cli.errors import MexmaError
from mexma_cli.knn.choice import choose_product
from mexma_cli.knn.cosines import EMPTY, PAIRS, TileLimits, TilePairs
from mexma_cli.knn.neighbours import TooLittleMemory, no_neighbours
from mexma_cli.knn.products import Block, Float32, Multiply
from mexma_cli.knn.sides import SearchSide
from mexma_cli.numerics.threads import InOrder, one_thread_each, threads
from mexma_cli.text import amounts

if TYPE_CHECKING:
    from mexma_cli.store.journal import FileJournal

log = logging.getLogger(__name__)

X_TILE, Y_TILE = 512, 8192
"""Rows of x that a thread multiplies at once, and rows of y; so few that their estimates are still in the
processor's cache when they are looked at."""
X_ROWS = 1 << 16
"""Rows of x that are held at once where the memory has no limit; more would not make it faster."""
_GROUPS = 128  # of estimates, of which maxima are taken for a first limit
_READ = 1 << 15  # rows of x that are read at once
_PRODUCT = 1 << 25  # bytes of a thread's product and of its copies of what it multiplies, at most
_PAIR_BYTES = 96  # of a pair while it is computed


class SearchPlace(NamedTuple):
    """How far a search is: the next tiles are those of x from row `top` on, `rows` rows of them, with y from
    row `start` on."""

    rows: int
    top: int
    start: int


def bytes_needed(n: int, m: int, dim: int, k: int, rows: int) -> int:
    """Memory of a search with `rows` rows of x at a time: results, lists, a block of either side, tiles."""
    lists = 20 * (n * min(k, m) + m * min(k, n))  # a key of 8 bytes, then a score and an id
    blocks = (rows + min(m, Y_TILE)) * (6 * dim + 48)  # float32, and bfloat16 at most
    thread = min(_PRODUCT, 4 * n * m) + _PAIR_BYTES * PAIRS
    return lists + 8 * (n + m) + blocks + threads() * thread


def least_bytes(n: int, m: int, dim: int, k: int) -> int:
    """Bytes without which `knn` of n and m rows is refused."""
    return bytes_needed(n, m, dim, k, min(n, X_TILE))


def search_exactly(
    left: SearchSide,
    right: SearchSide,
    k: int,
    memory: int | None = None,
    journal: FileJournal | None = None,
    on_progress: Callable[[int, int], object] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Find the k nearest of all rows of both sides in the other; arguments and errors as for `exact.knn`.

    An estimate that is worse than its bound says ends the pass, and the search starts again in float32.

    Returns:
        Keys, int64 [n, min(k, m)] and [m, min(k, n)], ascending.
    """
    forward, backward = no_neighbours(left, right, k)
    k = max(forward.shape[1], backward.shape[1])
    size = len(left), len(right), left.dim, k
    rows = _rows_at_once(*size, memory)
    kept = journal.load(forward, backward) if journal else None
    place = SearchPlace(*kept) if kept else SearchPlace(rows, 0, 0)
    if memory is not None and place.rows > rows:
        begun_with = bytes_needed(*size, place.rows)
        raise TooLittleMemory(
            f"this search was begun with more memory, {amounts.size(begun_with)}",
            begun_with,
            "give that much to go on with it, or remove its folder to start anew",
        )
    sides, lists = (left, right), (forward, backward)
    product = choose_product(sides, size[:2], k)
    if memory is None:
        place = place._replace(rows=max(place.rows, product.rows_held(left.dim, k)))
    else:
        product.larger = product.larger[0], 1  # y is read as a processor reads it
    found = ExactSearch(sides, lists, product)
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
        start = SearchPlace(rows, 0, 0)
        if journal:
            journal.save(start, forward, backward)  # or a later entry would rest on the wrong lists
        ExactSearch(sides, lists, Float32()).run(start, journal, on_progress)
    return lists


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


class TileRows(NamedTuple):
    """Some rows of a side, where they are searched: the number of the first, unit vectors, these prepared for
    the product, and the lists of the best so far."""

    first: int
    unit: Any
    block: Block
    best: Any


class ExactSearch:
    """One pass over all tiles: y inside x, so that only a part of x is ever held.

    Attributes:
        computed: Pairs that were computed exactly.
        broken: Whether the estimate of one of them was worse than its bound says.
    """

    def __init__(
        self, sides: tuple[SearchSide, SearchSide], lists: tuple[np.ndarray, np.ndarray], product: Float32
    ) -> None:
        self.product, self.computed, self.broken = product, 0, False
        self._sides, self._lists, self._lock = sides, lists, Lock()
        self._x_tile, self._y_tile = (
            size * larger for size, larger in zip((X_TILE, Y_TILE), product.larger, strict=True)
        )
        self._memory: SimpleQueue[Any] = SimpleQueue()
        for _ in range(product.threads()):
            rows, columns = min(self._x_tile, len(sides[0])), min(self._y_tile, len(sides[1]))
            self._memory.put(product.memory(rows, columns))

    def run(
        self,
        place: SearchPlace,
        journal: FileJournal | None = None,
        on_progress: Callable[[int, int], object] | None = None,
    ) -> None:
        """Go over all tiles from a place on."""
        with one_thread_each(self.product.threads()) as in_order:
            self._run(in_order, place, journal, on_progress)

    def _run(
        self,
        in_order: InOrder[Any, Any],
        place: SearchPlace,
        journal: FileJournal | None,
        on_progress: Callable[[int, int], object] | None,
    ) -> None:
        n, m = map(len, self._sides)
        across = -(-m // self._y_tile)
        in_all = -(-n // self._x_tile) * across
        rows, top, start = place
        while top < n:
            pieces = self._read(in_order, top, min(top + rows, n))
            for unit in self._units(1, start, m, self._y_tile):
                y = self._rows(1, start, unit)
                multiply = self.product.against(y.block.low)

                def look_through(x: TileRows, y: TileRows = y, multiply: Multiply = multiply) -> None:
                    self._tile(x, y, multiply)

                before = top // self._x_tile * across + start // self._y_tile * len(pieces)
                for done, _ in enumerate(in_order(look_through, pieces), before + 1):
                    if on_progress is not None:
                        on_progress(done, in_all)
                if self.broken:
                    return
                self._fetch(1, y)
                start += self._y_tile
                if journal and start < m and journal.due():
                    self._fetch(0, *pieces)
                    journal.save(SearchPlace(rows, top, start), *self._lists)
            self._fetch(0, *pieces)
            top, start = top + rows, 0
            del pieces  # before the next are read
            if journal and top < n and journal.due():
                journal.save(SearchPlace(rows, top, start), *self._lists)

    def _read(self, in_order: InOrder[Any, Any], top: int, stop: int) -> list[TileRows]:
        """Rows top to stop of x, cut into tiles."""
        pieces: list[TileRows] = []
        for unit in self._units(0, top, stop, max(_READ, self._x_tile)):

            def piece(start: int, first: int = top, unit: np.ndarray = unit) -> TileRows:
                return self._rows(0, first + start, unit[start : start + self._x_tile])

            pieces += in_order(piece, range(0, len(unit), self._x_tile))
            top += len(unit)
        return pieces

    def _units(self, side: int, start: int, stop: int, size: int) -> Iterator[np.ndarray]:
        """Unit vectors of rows start to stop of a side, so many at a time."""
        rows = range(start, stop, size)
        return self.product.ahead(self._sides[side].unit_vectors(row, min(row + size, stop)) for row in rows)

    def _rows(self, side: int, first: int, unit: np.ndarray) -> TileRows:
        there = self.product.put(unit)
        best = self.product.put(self._lists[side][first : first + len(unit)])
        return TileRows(first, there, self.product.block(there, side), best)

    def _fetch(self, side: int, *pieces: TileRows) -> None:
        """Bring the lists of some rows into those of all."""
        for rows in pieces:
            self.product.fetch(rows.best, self._lists[side][rows.first : rows.first + len(rows.unit)])

    def _tile(self, x: TileRows, y: TileRows, multiply: Multiply) -> None:
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

    def _limits(
        self, tile: Any, x: TileRows, y: TileRows, slacks: tuple[Any, ...]
    ) -> tuple[TileLimits, TileLimits]:
        """How large an estimate must be so that its pair may be among the best of its row or column."""
        relative_error, library = self.product.relative_error, self.product.library
        sides = (x, y)
        bounds, above = [], [side.block.bias + slack for side, slack in zip(sides, slacks, strict=True)]
        for own, side in enumerate(sides):
            kth = self.product.scores(side.best[:, 0])
            if bool((kth == -np.inf).any()):
                lower = [side.block.bias - slack for side, slack in zip(sides, slacks, strict=True)]
                lower[own] -= relative_error * x.block.reach * y.block.reach
                floors = self._floors(tile, 1 - own, side.best.shape[1], lower[1 - own])
                if floors is not None:
                    kth = library.maximum(kth, floors + lower[own])
            bounds.append(kth.clip(-2))  # cosines are larger, and -inf is no number to add
        limits = []
        for own in (0, 1):
            need, others = bounds[own] - above[own], above[1 - own]
            if relative_error:  # the number that is stored may be smaller than what it stands for
                ends = (abs(need - end) for end in (others.min(), others.max()))
                need = need - relative_error * library.maximum(*ends)
            limits.append(TileLimits(need, above[own]))
        return limits[0], limits[1]

    def _floors(self, tile: Any, axis: int, k: int, other: Any) -> Any:
        """The k-th best of the maxima of groups along an axis of a tile; None where the axis is too short.

        Args:
            other: float32, what the lower bound of a cosine is more than an estimate, of the rows along the
                axis.
        """
        size = len(other)
        groups = min(size, max(_GROUPS, 4 * k))
        layers = min(size // max(groups, 1), max(self.product.layers, 4 * k))
        return self.product.kth(tile, k, layers, groups, other, axis) if groups >= k and layers else None

    def _compute(self, pairs: TilePairs, x: TileRows, y: TileRows, slacks: tuple[Any, ...]) -> None:
        """Compute the cosines of pairs, and put them into the lists."""
        rows, columns, estimates = pairs
        cosines = self.product.dots(x.unit, y.unit, rows, columns)
        error = abs(cosines - (estimates + (x.block.bias[rows] + y.block.bias[columns])))
        bound = abs(estimates) * self.product.relative_error + (slacks[0][rows] + slacks[1][columns])
        broken = bool((error > bound).any())
        with self._lock:
            self.product.offer(x.best, rows, columns + y.first, cosines)
            self.product.offer(y.best, columns, rows + x.first, cosines)
            self.computed += len(cosines)
            self.broken = self.broken or broken
