"""Products of rows of two sides: estimates of cosines with a known largest error, and the float32 product.

A product prepares unit vectors as a `Block`. The cosine of two rows is then estimated as

    x.bias + y.bias + x.low . y.low

and is off by at most

    relative_error |x.low . y.low|  +  x.error y.reach + x.loose  +  y.error x.reach + y.loose

where `reach` is the largest length of a row: of x as it is, of y as it is in `low`. The lengths are
measured, not assumed. So nothing is missed whatever the vectors are, and a row that a product is bad at only
makes its own bounds wide.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from mexma_cli.knn import cosines
from mexma_cli.knn.cosines import TileLimits, TilePairs, scores_of
from mexma_cli.numerics.threads import threads

Samples = tuple[np.ndarray, np.ndarray]
"""Unit vectors of some rows of both sides, float32 [n, d]."""
_AT_ONCE = 1 << 8  # rows that stay in the processor's cache
_BYTES = 64  # AMX takes rows of int8 by so many
Multiply = Callable[[Any, Any], Any]
"""Multiplies rows of x, [r, width], with those of y that it was made for, into memory for the estimates."""


class Block(NamedTuple):
    """Rows of a side, prepared for a product.

    Attributes:
        low: [n, width], the rows in the product's numbers.
        bias, error, loose: float32 [n], see above.
        reach: See above.
    """

    low: Any
    bias: Any
    error: Any
    loose: Any
    reach: Any


class Float32:
    """The product by NumPy, for which torch need not be loaded; and what all products do.

    Args:
        samples: From which a product may take the usual direction and size of rows.
        compiled: Whether compiled loops are worth loading.

    Attributes:
        relative_error: The relative error of an estimate, as it is stored.
        loops: `cosines`, or `kernels`, which has the same compiled.
        library: NumPy, or torch, of whose arrays blocks, limits, pairs and lists are.
        larger: How many times `X_TILE` and `Y_TILE` rows are multiplied at once.
        layers: Estimates in each group of which maxima are taken for a first limit, at most.
        memory_errors: Exceptions which say that a GPU's memory is full.
    """

    relative_error = np.float32(0)
    library: ModuleType = np
    larger: tuple[int, int] = 1, 1
    layers = 16
    memory_errors: tuple[type[Exception], ...] = ()

    def __init__(self, samples: Samples | None = None, compiled: bool = True) -> None:
        self.loops: ModuleType = cosines
        if compiled:
            from mexma_cli.knn import kernels

            self.loops = kernels

    def threads(self) -> int:
        """Threads that search a tile each."""
        return threads()

    def ahead(self, blocks: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
        """Blocks of vectors, each read when the search asks for it; or before, if the processor is free."""
        return iter(blocks)

    def rows_held(self, dim: int, k: int) -> int:
        """Rows of x that a memory of its own holds; 0: it has none."""
        return 0

    def put(self, array: np.ndarray) -> Any:
        """Unit vectors or lists, where they are searched."""
        return array

    def fetch(self, best: Any, lists: np.ndarray) -> None:
        """Bring lists back from there into those that were put."""

    def block(self, unit: Any, side: int) -> Block:
        """Prepare unit vectors, float32 [n, d], of side 0 (x) or 1 (y)."""
        none = np.zeros(len(unit), np.float32)
        rounding = np.float32(0.505 * (unit.shape[1] + 16) * 2.0**-24 + 5e-7)  # of sums in any order
        return Block(unit, none, none, none + rounding, np.float32(1))

    def memory(self, rows: int, columns: int) -> Any:
        """Memory for the estimates of a tile of so many rows and columns, or of a smaller one."""
        return np.empty(rows * columns, np.float32)

    def against(self, low: Any) -> Multiply:
        """A function that multiplies with these rows of y; several threads may call it at once."""

        def multiply(rows: np.ndarray, memory: np.ndarray) -> np.ndarray:
            tile = memory[: len(rows) * len(low)].reshape(len(rows), len(low))
            return np.matmul(rows, low.T, out=tile)

        return multiply

    def near(self, tile: Any, rows: TileLimits, columns: TileLimits) -> Iterator[TilePairs]:
        """Find the estimates that reach the limit of their row or their column, see `cosines.near`."""
        found: Iterator[TilePairs] = self.loops.near(tile, rows, columns)
        return found

    def here(self, estimates: Any) -> np.ndarray:
        """Estimates as float32 of NumPy."""
        found: np.ndarray = estimates
        return found

    def kth(self, tile: Any, k: int, layers: int, groups: int, other: np.ndarray, axis: int) -> Any:
        """The k-th best of the maxima of groups along an axis of a tile, float32 [length of the other axis].

        Args:
            layers, groups: Estimates in a group, and how many groups there are.
            other: float32 [layers * groups or more], added to the estimates along the axis.
        """
        whole, length = layers * groups, tile.shape[1 - axis]
        at_once, found = max(1, cosines.PAIRS // whole), np.empty(length, np.float32)
        for start in range(0, length, at_once):  # in memory that stays in the cache
            some = slice(start, start + at_once)
            if axis:
                lower = self.here(tile[some, :whole]) + other[:whole]
                maxima = lower.reshape(-1, layers, groups).max(axis=1)
            else:
                lower = self.here(tile[:whole, some]) + other[:whole, None]
                maxima = lower.reshape(layers, groups, -1).max(axis=0)
            found[some] = np.partition(maxima, groups - k, axis=axis).take(groups - k, axis=axis)
        return found

    def scores(self, keys: Any) -> Any:
        """The scores in keys (`cosines.scores_of`)."""
        return scores_of(keys)

    def dots(self, x: Any, y: Any, rows: Any, columns: Any) -> Any:
        """Exact cosines of pairs (`cosines.dots`)."""
        return self.loops.dots(x, y, rows, columns)

    def offer(self, best: Any, rows: Any, ids: Any, scores: Any) -> None:
        """Put pairs into lists (`cosines.offer`)."""
        self.loops.offer(best, rows, ids, scores)


class Centred(Float32):
    """Products in low precision, of rows less the centre of their side.

    Sentence vectors lie in a narrow cone. Without their common part products are small, and so are rounding
    errors. With x = a + p, where a is the centre, and p rounded to p', and y = b + q the same way,

        x.y = p'.q' + x.b + y.a - a.b,    off by at most  |p| |q - q'| + |p - p'| |q'|  (Cauchy-Schwarz)
    """

    def __init__(self, samples: Samples) -> None:
        super().__init__()
        self.centres = [
            rows.mean(axis=0, dtype=np.float32) if len(rows) else np.zeros(rows.shape[1], np.float32)
            for rows in samples
        ]

    def block(self, unit: Any, side: int) -> Block:
        centre, other = self.centres[side], self.centres[1 - side]
        bias = unit @ other
        if side:
            bias -= centre @ other
        low, lengths = self.room(*unit.shape), np.empty((2, len(unit)), np.float32)
        for start in range(0, len(unit), _AT_ONCE):
            own = slice(start, start + _AT_ONCE)
            exact = unit[own] - centre
            low[own, : unit.shape[1]], kept = self.rounded(exact, side)
            for place, rows in enumerate((kept if side else exact, exact - kept)):
                lengths[place, own] = np.sqrt(np.einsum("ij,ij->i", rows, rows))
        length, error = lengths * np.float32(1.0001)
        sums = np.full(len(unit), 2 * unit.shape[1] * 2.0**-24 + 5e-7, np.float32)
        return Block(low, bias, error, sums, length.max(initial=0))

    def room(self, rows: int, dim: int) -> Any:
        """Memory for rows in low precision, [rows, dim or more]."""
        raise NotImplementedError

    def rounded(self, exact: np.ndarray, side: int) -> tuple[Any, np.ndarray]:
        """Rows in low precision, and these as float32."""
        raise NotImplementedError


class Int8(Centred):
    """Products of int8 numbers, summed exactly, for processors that have `lanes.quads`; estimates are stored
    as bfloat16.

    These processors multiply by numbers without a sign: x is stored with 128 more.
    """

    relative_error = np.float32(2.0**-8)

    def __init__(self, samples: Samples) -> None:
        super().__init__(samples)
        self.steps = [self._step(rows - centre) for rows, centre in zip(samples, self.centres, strict=True)]

    @staticmethod
    def _step(rows: np.ndarray) -> float:
        """The step from one number to the next: 127 of them reach the largest number of most rows. What is
        larger in an odd row is cut off, which makes only its own bounds wide."""
        largest = np.abs(rows).max(axis=1, initial=0)
        usual = float(np.quantile(largest, 0.9)) if len(rows) else 0.0
        return usual / 127 if usual > 1e-20 else 1.0

    def room(self, rows: int, dim: int) -> Any:
        return np.zeros((rows, -(-dim // _BYTES) * _BYTES), np.int8)

    def rounded(self, exact: np.ndarray, side: int) -> tuple[Any, np.ndarray]:
        step = np.float32(self.steps[side])
        low = np.rint(exact / step).clip(-127, 127)
        return low, low * step

    def memory(self, rows: int, columns: int) -> Any:
        return np.empty(rows * columns, np.uint16)

    def against(self, low: Any) -> Multiply:
        from mexma_cli.knn.kernels import COLUMNS, products_of_quads
        from mexma_cli.numerics.lanes import quads

        kind = np.dtype(quads())
        panels = _by(COLUMNS, low).view(kind)
        panels = np.ascontiguousarray(panels.reshape(-1, COLUMNS, panels.shape[1]).transpose(0, 2, 1))
        more, factor = 128 * low.sum(axis=1, dtype=np.int32), np.float32(self.steps[0] * self.steps[1])

        def multiply(rows: np.ndarray, memory: np.ndarray) -> np.ndarray:
            tile = memory[: len(rows) * len(low)].reshape(len(rows), len(low))
            left = (_by(COLUMNS, rows).view(np.uint8) ^ np.uint8(128)).view(kind)  # as x + 128
            products_of_quads(left, panels, more, factor, tile)
            return tile

        return multiply

    def here(self, estimates: Any) -> np.ndarray:
        found: np.ndarray = (estimates.astype(np.uint32) << 16).view(np.float32)
        return found


def _by(size: int, rows: np.ndarray) -> np.ndarray:
    """Rows, and zeros below up to a multiple of a size."""
    return np.pad(rows, ((0, -len(rows) % size), (0, 0)))
