"""Rows of one side, prepared for the search: unit vectors, and low-precision copies with a known error.

A pair's cosine is estimated from the copies. With x = a + p, where a is the centre of its side, and p
rounded to p', and y = b + q the same way,

    x.y = p'.q' + x.b + y.a - a.b,    off by at most  |p| |q - q'| + |p - p'| |q'|  (Cauchy-Schwarz)

and the lengths on the right are measured, not assumed. Sentence vectors lie in a narrow cone: without their
common part the products are small, and so are rounding errors. In int8 every row has a step of its own,
so that nothing is cut off, and an odd row makes only its own bounds wide.

Where most of the variance is in some directions, p' and q' are the rounded parts of p and q in these alone:
the product is so much smaller. With P and Q the parts in all other directions, the estimate is off by |P| |Q|
more. For each pair there is still one product of two numbers to be added (Cauchy-Schwarz again, for any s):

    |p| |q - q'| + |P| |Q|  <=  sqrt(s |p|^2 + |P|^2) sqrt(|q - q'|^2 / s + |Q|^2)

Of pairs that such an estimate does not decide, P.Q is added to it, which decides nearly all of them.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, fields

import numpy as np
import torch

from mexma_cli.knn.arithmetic import Arithmetic
from mexma_cli.knn.sides import Side
from mexma_cli.numerics.threads import in_blocks

_AT_ONCE = 1 << 8  # rows that stay in the processor's cache
_SAMPLE = 512  # rows by which the number of pairs is judged, at most
_FEWER = 4  # times as few rows, from which it follows how the share of such pairs falls


@dataclass(frozen=True)
class Frame:
    """How the rows of a side are prepared.

    Attributes:
        arithmetic: The numbers of the low-precision copies.
        centre, other: float32 [d], what is subtracted on this side and on the other.
        axes: float32 [d, d], orthonormal columns: the first `arithmetic.width` are the directions that
            estimates are made of; None: all are.
    """

    arithmetic: Arithmetic
    centre: np.ndarray
    other: np.ndarray
    axes: np.ndarray | None = None


@dataclass(frozen=True)
class Block:
    """Some rows of a side.

    A pair's estimate is off by at most the row of x's factor `as_row` times the row of y's `as_column`, plus
    the slack of x's row, besides what the arithmetic's product loses.

    Attributes:
        unit: float32 [n, d], unit vectors (zeros stay zeros).
        low: [n, width], the centred rows' parts in the frame's directions in low precision, each divided by
            its step: float32, int8, or uint16 for bfloat16.
        step: float32 [n], 1 except for int8.
        length, error, bias: float32 [n]: lengths of these parts and of their rounding errors, and the
            products with the other side's centre (less, on one side, that of both centres).
        as_row, as_column: float32 [n], see above.
        rest: float32 [n, d - width], the centred rows' parts in the other directions.
    """

    unit: np.ndarray
    low: np.ndarray
    step: np.ndarray
    length: np.ndarray
    error: np.ndarray
    bias: np.ndarray
    as_row: np.ndarray
    as_column: np.ndarray
    rest: np.ndarray

    def __len__(self) -> int:
        return len(self.unit)

    def part(self, start: int, stop: int) -> Block:
        """Some of its rows, without a copy."""
        cut = slice(start, stop)
        return Block(*(getattr(self, field.name)[cut] for field in fields(self)))

    def slack(self, other: Block) -> np.ndarray:
        """The largest error of a row's estimates with another block, float32 [n], without the product of two
        factors that each pair adds itself."""
        reach = (other.length + other.error).max(initial=0)
        return (self.error * reach * np.float32(1.0001) + np.float32(_rounding(self) + 1e-6)).astype(
            np.float32
        )


def _rounding(block: Block) -> float:
    """What float32 sums lose: the tile's, both biases', the cosine's, and parts in some directions."""
    sums = 4 if block.low.shape[1] == block.unit.shape[1] else 8
    return sums * block.unit.shape[1] * 2.0**-24


def block(unit: np.ndarray, frame: Frame) -> Block:
    """Unit vectors float32 [n, d], prepared."""
    low = frame.arithmetic.empty(len(unit), frame.arithmetic.width or unit.shape[1])
    stats = np.empty((len(unit), 4), dtype=np.float32)
    rest = np.empty((len(unit), unit.shape[1] - low.shape[1]), dtype=np.float32)

    def prepare(own: slice) -> None:
        exact = unit[own] - frame.centre
        if frame.axes is not None:
            turned = (torch.from_numpy(exact) @ torch.from_numpy(frame.axes)).numpy()
            exact, rest[own] = turned[:, : low.shape[1]], turned[:, low.shape[1] :]
        stats[own, :3], stats[own, 3] = _lower(exact, low[own]), unit[own] @ frame.other

    in_blocks(len(unit), _AT_ONCE, prepare, 4 * unit.size)
    length, error, step, bias = np.ascontiguousarray(stats.T)
    length *= np.float32(1.0001)
    if frame.axes is None:
        return Block(unit, low, step, length, error, bias, length, error, rest)
    share, others = np.float32(frame.arithmetic.loss), np.einsum("nd,nd->n", rest, rest)
    as_row = np.sqrt(share * length**2 + others) * np.float32(1.0001)
    as_column = np.sqrt(error**2 / share + others) * np.float32(1.0001)
    return Block(unit, low, step, length, error, bias, as_row, as_column, rest)


def _lower(exact: np.ndarray, low: np.ndarray) -> np.ndarray:
    """Make the low-precision copies of rows, float32 [n, d].

    Args:
        low: [n, d] of a `Block`, which is filled.

    Returns:
        float32 [n, 3]: length of the row, length of the rounding error, step.
    """
    step = np.ones((len(exact), 1), np.float32)
    if low.dtype == np.int8:  # the largest number of a row becomes 127
        largest = np.abs(exact).max(axis=1, keepdims=True, initial=0)
        np.divide(largest, 127, out=step, where=largest > 1e-20)
        low[:] = np.rint(exact / step)
        kept = low * step
    elif low.dtype == np.uint16:
        bits: np.ndarray = np.ascontiguousarray(exact).view(np.uint32)
        bits = (bits + (0x7FFF + (bits >> 16 & 1))) >> 16
        low[:] = bits
        kept = (bits << 16).view(np.float32)
    else:
        low[:] = kept = exact
    lost = exact - kept
    lengths = [np.sqrt(np.einsum("nd,nd->n", one, one)) for one in (exact, lost)]
    return np.stack([*lengths, step[:, 0]], axis=1)


class Sample:
    """Some rows of two sides, which say how both had better be prepared."""

    def __init__(self, left: Side, right: Side) -> None:
        self.sides, self._centres = (left, right), (left.centre(), right.centre())

    def frames(self, arithmetic: Arithmetic) -> tuple[Frame, Frame]:
        """How the rows of both sides are prepared."""
        axes = None if arithmetic.width is None else self._axes
        return Frame(arithmetic, *self._centres, axes), Frame(arithmetic, *self._centres[::-1], axes)

    @functools.cached_property
    def _axes(self) -> np.ndarray:
        """The principal axes of both sides, those of most variance first, float32 [d, d]."""
        moments = np.zeros((self.sides[0].dim, self.sides[0].dim))
        for side, centre in zip(self.sides, self._centres, strict=True):
            rows = side.sample().astype(np.float64) - centre
            moments += rows.T @ rows
        return np.ascontiguousarray(np.linalg.eigh(moments)[1][:, ::-1], dtype=np.float32)

    @functools.cached_property
    def _units(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows of both sides, from all of their parts; fewer of the first, whose lists are looked at."""
        left, right = (side.sample() for side in self.sides)
        return np.ascontiguousarray(left[:: -(-len(left) // _SAMPLE) or 1]), right

    def pairs(self, sizes: tuple[int, int], k: int, arithmetic: Arithmetic) -> float:
        """About how many pairs of two sides of such sizes must be computed exactly.

        These are the pairs whose estimate may exceed the k-th best cosine among what their row has met so
        far. Their share is counted in the sample, for rows that have met all of it and for rows that have met
        a part. As it falls from the latter to the former, so it goes on.
        """
        left, right = self._units
        if not min(*sizes, len(left), len(right) // _FEWER):
            return 0.0
        x, y = map(block, self._units, self.frames(arithmetic))
        cosines = left @ right.T
        bounds = cosines - x.rest @ y.rest.T + np.outer(x.as_row, y.as_column) + x.slack(y)[:, None]
        shares = []
        for met in (cosines[:, ::_FEWER], cosines):
            place = max(met.shape[1] - k, 0)
            kth = np.partition(met, place, axis=1)[:, place]
            shares.append((bounds >= kth[:, None]).mean())
        fall = math.log(shares[0] / shares[1]) / math.log(_FEWER)
        found = 0.0
        for own, other in (sizes, sizes[::-1]):
            met = np.geomspace(1, other, 256)
            found += own * np.trapezoid(np.minimum(shares[1] * (len(right) / met) ** fall, 1), met)
        return float(found)
