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
from typing import Protocol

import numpy as np
import torch

from mexma_cli.knn import kernels
from mexma_cli.knn.arithmetic import FLOAT32, Arithmetic
from mexma_cli.numerics.threads import in_slices

_READ_ROWS = 1 << 12  # rows that are read at once
_SAMPLE = 2048  # rows from which the centre is taken


class VectorSource(Protocol):
    """Whatever has rows of vectors: an EmbeddingStore, or anything that reads like one."""

    @property
    def rows(self) -> int: ...

    @property
    def dim(self) -> int: ...

    def vectors(self, start: int, stop: int) -> np.ndarray: ...


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


class Side:
    """The rows of one side that take part, block by block."""

    def __init__(self, source: np.ndarray | VectorSource, keep: np.ndarray | None) -> None:
        self._source = source if hasattr(source, "vectors") else np.asarray(source)  # lists, torch's tensors
        if isinstance(self._source, np.ndarray):
            if self._source.ndim != 2:
                raise ValueError(f"an array of shape {self._source.shape}, not rows of vectors")
            self.rows, self.dim = self._source.shape
        else:
            self.rows, self.dim = self._source.rows, self._source.dim
        if keep is not None and keep.shape != (self.rows,):
            raise ValueError(f"a mask of shape {keep.shape} for {self.rows} rows")
        self.ids = np.arange(self.rows) if keep is None else np.flatnonzero(keep)

    def __len__(self) -> int:
        return len(self.ids)

    def raw(self, start: int, stop: int) -> np.ndarray:
        """Kept rows start to stop as they are, a float32 copy [n, d]."""
        ids = self.ids[start:stop]
        rows = torch.empty(len(ids), self.dim).numpy()  # aligned, as products like it
        done = 0
        while done < len(ids):  # rows that take no part may lie between: never much of them at once
            first = int(ids[done])
            more = int(np.searchsorted(ids[done:], first + _READ_ROWS))
            last = int(ids[done + more - 1]) + 1
            source = self._source
            span = source[first:last] if isinstance(source, np.ndarray) else source.vectors(first, last)
            rows[done : done + more] = span if len(span) == more else span[ids[done : done + more] - first]
            done += more
        return rows

    def centre(self) -> np.ndarray:
        """The mean direction of some rows, float32 [d]; a better one only makes errors smaller."""
        piece = max(1, min(len(self), _SAMPLE) // 8)
        starts = np.unique(np.linspace(0, max(len(self) - piece, 0), 8).astype(int)).tolist()
        rows = np.concatenate([self.raw(start, start + piece) for start in starts])
        norms = np.linalg.norm(rows, axis=1, keepdims=True)
        usable = np.isfinite(norms[:, 0]) & (norms[:, 0] > 0)
        if not usable.any():
            return np.zeros(self.dim, dtype=np.float32)
        mean: np.ndarray = (rows[usable] / norms[usable]).mean(axis=0, dtype=np.float32)
        return mean

    def block(
        self, start: int, stop: int, arithmetic: Arithmetic, centre: np.ndarray, other: np.ndarray
    ) -> Block:
        """Kept rows start to stop, prepared.

        Raises:
            ValueError: A vector is not finite.
        """
        unit = self.raw(start, stop)
        low = arithmetic.empty(*unit.shape)
        stats = np.empty((len(unit), 4), dtype=np.float32)

        def prepare(a: int, b: int) -> None:
            bad = kernels.prepare(unit[a:b], centre, other, low[a:b], stats[a:b])
            if bad >= 0:
                raise ValueError(f"the vector of row {int(self.ids[start + a + bad])} is not finite")

        in_slices(len(unit), prepare, 4 * unit.size)
        length, error, bias, step = np.ascontiguousarray(stats.T)
        return Block(unit, low, step, length * np.float32(1.0001), error, bias)

    def units(self, start: int, stop: int) -> np.ndarray:
        """Kept rows start to stop as unit vectors float32 [n, d], to the last bit as in `block`.

        Raises:
            ValueError: A vector is not finite.
        """
        nowhere = np.zeros(self.dim, dtype=np.float32)
        return self.block(start, stop, FLOAT32, nowhere, nowhere).unit


def pairs_expected(left: Side, right: Side, sizes: tuple[int, int], k: int, arithmetic: Arithmetic) -> float:
    """About how many pairs of two sides of such sizes must be computed exactly, judged by some rows of both.

    Lists change k (1 + ln(candidates / k)) times a row while candidates come in random order. With bounds
    that are w standard deviations of the cosines wide, about exp(3 w) times as many pairs pass: three
    deviations out, a normal distribution is that much denser w deviations nearer to its middle. The result is
    a third of that, the share that was counted on made-up topics and on verses of the Bible: where near
    neighbours exist, lists are good early.
    """
    centres = left.centre(), right.centre()
    x = left.block(0, min(len(left), _READ_ROWS // 8), arithmetic, *centres)
    y = right.block(0, min(len(right), _READ_ROWS // 8), arithmetic, *centres[::-1])
    if not min(*sizes, len(x), len(y)):
        return 0.0
    cosines = (x.unit - centres[0]) @ (y.unit - centres[1]).T
    bound = x.length.mean() * y.error.mean() + x.error.mean() * y.length.mean()
    width = min(float(bound / max(cosines.std(), 1e-9)), 10.0)
    changes = sum(
        own * min(k, other) * (1 + math.log(other / min(k, other))) for own, other in (sizes, sizes[::-1])
    )
    return changes / 3 * math.exp(3 * width)
