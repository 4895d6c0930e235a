"""Rows of one side, prepared for the search: unit vectors, and low-precision copies with a known error.

A pair's cosine is estimated from the copies. With x = a + p, where a is the centre of its side, and p
rounded to p', and y = b + q the same way,

    x.y = p'.q' + x.b + y.a - a.b,    off by at most  |p| |q - q'| + |p - p'| |q'|  (Cauchy-Schwarz)

and the lengths on the right are measured, not assumed. Sentence vectors lie in a narrow cone: without their
common part the products are small, and so are rounding errors. In int8 every row has a step of its own,
so that nothing is cut off, and an odd row makes only its own bounds wide.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import numpy as np

from mexma_cli.knn.arithmetic import Arithmetic
from mexma_cli.knn.kernels import unit_rows
from mexma_cli.knn.sides import Side
from mexma_cli.numerics.threads import in_slices

_AT_ONCE = 1 << 8  # rows that stay in the processor's cache
_SAMPLE = 512  # rows of a side by which the number of pairs is judged


@dataclass(frozen=True)
class Block:
    """Some rows of a side.

    Attributes:
        unit: float32 [n, d], unit vectors (zeros stay zeros).
        low: [n, d], the centred rows in low precision, each divided by its step: float32, int8, or uint16
            for bfloat16.
        step: float32 [n], 1 except for int8.
        length, error, bias: float32 [n]: lengths of the centred rows and of their rounding errors, and the
            products with the other side's centre (less, on one side, that of both centres).
    """

    unit: np.ndarray
    low: np.ndarray
    step: np.ndarray
    length: np.ndarray
    error: np.ndarray
    bias: np.ndarray

    def __len__(self) -> int:
        return len(self.unit)

    def part(self, start: int, stop: int) -> Block:
        """Some of its rows, without a copy."""
        cut = slice(start, stop)
        return Block(*(getattr(self, field.name)[cut] for field in fields(self)))

    def slack(self, other: Block) -> np.ndarray:
        """The largest error of a row's estimates with another block, float32 [n], without one term that each
        pair adds itself: this row's length times the other row's error."""
        reach = (other.length + other.error).max(initial=0)
        rounding = 4 * self.unit.shape[1] * 2.0**-24  # float32 sums: the tile's, both biases', the cosine's
        return (self.error * reach * np.float32(1.0001) + np.float32(rounding + 1e-6)).astype(np.float32)


def block(
    side: Side, rows: tuple[int, int], arithmetic: Arithmetic, centre: np.ndarray, other: np.ndarray
) -> Block:
    """Kept rows of a side, prepared.

    Args:
        rows: The first and the end.
        centre, other: float32 [d], what is subtracted on this side and on the other.

    Raises:
        ValueError: A vector is not finite.
    """
    unit = side.raw(*rows)
    low = arithmetic.empty(*unit.shape)
    stats = np.empty((len(unit), 4), dtype=np.float32)

    def prepare(a: int, b: int) -> None:
        side.check(rows[0] + a, unit_rows(unit[a:b]))
        for start in range(a, b, _AT_ONCE):
            own = slice(start, min(start + _AT_ONCE, b))
            stats[own] = _centre(unit[own], centre, other, low[own])

    in_slices(len(unit), prepare, 4 * unit.size)
    length, error, bias, step = np.ascontiguousarray(stats.T)
    return Block(unit, low, step, length * np.float32(1.0001), error, bias)


def _centre(unit: np.ndarray, centre: np.ndarray, other: np.ndarray, low: np.ndarray) -> np.ndarray:
    """Make the low-precision copies of unit vectors, float32 [n, d].

    Args:
        centre, other: As for `block`.
        low: [n, d] of a `Block`, which is filled.

    Returns:
        float32 [n, 4]: length of the centred row, length of the rounding error, unit @ other, step.
    """
    exact = unit - centre
    step = np.ones((len(unit), 1), np.float32)
    if low.dtype == np.int8:  # the largest number of a row becomes 127
        largest = np.abs(exact).max(axis=1, keepdims=True, initial=0)
        np.divide(largest, 127, out=step, where=largest > 1e-20)
        low[:] = np.rint(exact / step)
        kept = low * step
    elif low.dtype == np.uint16:
        bits = exact.view(np.uint32)
        bits = (bits + (0x7FFF + (bits >> 16 & 1))) >> 16
        low[:] = bits
        kept = (bits << 16).view(np.float32)
    else:
        low[:] = kept = exact
    lost = exact - kept
    lengths = [np.sqrt(np.einsum("nd,nd->n", one, one)) for one in (exact, lost)]
    return np.stack([*lengths, unit @ other, step[:, 0]], axis=1)


def pairs_expected(left: Side, right: Side, sizes: tuple[int, int], k: int, arithmetic: Arithmetic) -> float:
    """About how many pairs of two sides of such sizes must be computed exactly, judged by some rows of both.

    Lists change k (1 + ln(candidates / k)) times a row while candidates come in random order. With bounds
    that are w standard deviations of the cosines wide, about exp(3 w) times as many pairs pass: three
    deviations out, a normal distribution is that much denser w deviations nearer to its middle. The result is
    a third of that, the share that was counted on made-up topics and on verses of the Bible: where near
    neighbours exist, lists are good early.
    """
    centres = left.centre(), right.centre()
    x = block(left, (0, min(len(left), _SAMPLE)), arithmetic, *centres)
    y = block(right, (0, min(len(right), _SAMPLE)), arithmetic, *centres[::-1])
    if not min(*sizes, len(x), len(y)):
        return 0.0
    cosines = (x.unit - centres[0]) @ (y.unit - centres[1]).T
    bound = x.length.mean() * y.error.mean() + x.error.mean() * y.length.mean()
    width = min(float(bound / max(cosines.std(), 1e-9)), 10.0)
    changes = sum(
        own * min(k, other) * (1 + math.log(other / min(k, other))) for own, other in (sizes, sizes[::-1])
    )
    return changes / 3 * math.exp(3 * width)
