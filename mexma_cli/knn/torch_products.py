"""Products by torch on a processor: float32, bfloat16 and int8.

Sentence vectors lie in a narrow cone. So the centre of its side is subtracted from every row before it is
rounded: without their common part products are small, and so are rounding errors. With x = a + p, where a is
the centre, and p rounded to p', and y = b + q the same way,

    x.y = p'.q' + x.b + y.a - a.b,    off by at most  |p| |q - q'| + |p - p'| |q'|  (Cauchy-Schwarz)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from mexma_cli.knn import kernels
from mexma_cli.knn.products import Block, Float32, Multiply, Samples
from mexma_cli.knn.units import Limits, Pairs
from mexma_cli.numerics.torch_private import int8_product

_AT_ONCE = 1 << 8  # rows that stay in the processor's cache


class TorchFloat32(Float32):
    """The product by torch, which is the faster one on some processors."""

    def against(self, low: Any) -> Multiply:
        right = torch.from_numpy(low).T

        def multiply(rows: np.ndarray, memory: np.ndarray) -> np.ndarray:
            tile = memory[: len(rows) * right.shape[1]].reshape(len(rows), -1)
            torch.matmul(torch.from_numpy(rows), right, out=torch.from_numpy(tile))
            return tile

        return multiply


class BFloat16(Float32):
    """Products of bfloat16 numbers, whose estimates are stored as such."""

    dtype = torch.bfloat16
    spread = np.float32(2.0**-8)

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
        low = torch.empty(unit.shape, dtype=self.dtype)
        lengths = torch.empty(2, len(unit))
        for start in range(0, len(unit), _AT_ONCE):
            own = slice(start, start + _AT_ONCE)
            exact = torch.from_numpy(unit[own] - centre)
            low[own], kept = self.rounded(exact, side)
            lengths[0, own] = (kept if side else exact).norm(dim=1)
            lengths[1, own] = (exact - kept).norm(dim=1)
        length, error = lengths.numpy() * np.float32(1.0001)
        sums = np.full(len(unit), 2 * unit.shape[1] * 2.0**-24 + 5e-7, np.float32)
        return Block(low, bias, error, sums, length.max(initial=0))

    def rounded(self, exact: torch.Tensor, side: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Rows in low precision, and these as float32."""
        low = exact.to(self.dtype)
        return low, low.float()

    def memory(self, rows: int, columns: int) -> Any:
        return torch.empty(rows * columns, dtype=torch.bfloat16)

    def against(self, low: Any) -> Multiply:
        def multiply(rows: torch.Tensor, memory: torch.Tensor) -> torch.Tensor:
            tile = memory[: len(rows) * len(low)].view(len(rows), len(low))
            return torch.matmul(rows, low.T, out=tile)

        return multiply

    def near(self, tile: Any, rows: Limits, columns: Limits) -> Iterator[Pairs]:
        return kernels.near(tile.view(torch.int16).numpy().view(np.uint16), rows, columns)

    def here(self, estimates: Any) -> np.ndarray:
        found: np.ndarray = estimates.float().numpy()
        return found


class Int8(BFloat16):
    """Products of int8 numbers, summed exactly; estimates are stored as bfloat16."""

    dtype = torch.int8

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

    def rounded(self, exact: torch.Tensor, side: int) -> tuple[torch.Tensor, torch.Tensor]:
        low = (exact / self.steps[side]).round_().clamp_(-127, 127)
        return low.to(torch.int8), low * self.steps[side]

    def memory(self, rows: int, columns: int) -> None:
        """None: results come in memory of their own."""
        # After one block of up to 32 MiB was freed, glibc keeps such blocks for reuse.
        torch.empty((1 << 25) - (1 << 16), dtype=torch.uint8)

    def against(self, low: Any) -> Multiply:
        product = int8_product(low, self.steps[0] * self.steps[1])
        return lambda rows, memory: product(rows)


KINDS: tuple[type[Float32], ...] = (Float32, TorchFloat32, BFloat16, Int8)
"""The products of a processor."""
