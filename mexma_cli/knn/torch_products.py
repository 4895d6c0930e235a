"""Products by torch on a processor: float32 and bfloat16."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from mexma_cli.knn import kernels
from mexma_cli.knn.cosines import TileLimits, TilePairs
from mexma_cli.knn.products import Centred, Float32, Multiply


class TorchFloat32(Float32):
    """The product by torch, which is the faster one on some processors."""

    def against(self, low: Any) -> Multiply:
        right = torch.from_numpy(low).T

        def multiply(rows: np.ndarray, memory: np.ndarray) -> np.ndarray:
            tile = memory[: len(rows) * right.shape[1]].reshape(len(rows), -1)
            torch.matmul(torch.from_numpy(rows), right, out=torch.from_numpy(tile))
            return tile

        return multiply


class BFloat16(Centred):
    """Products of bfloat16 numbers, whose estimates are stored as such."""

    dtype = torch.bfloat16
    relative_error = np.float32(2.0**-8)

    def room(self, rows: int, dim: int) -> Any:
        return torch.empty(rows, dim, dtype=self.dtype)

    def rounded(self, exact: np.ndarray, side: int) -> tuple[Any, np.ndarray]:
        low = torch.from_numpy(exact).to(self.dtype)
        return low, low.float().numpy()

    def memory(self, rows: int, columns: int) -> Any:
        return torch.empty(rows * columns, dtype=torch.bfloat16)

    def against(self, low: Any) -> Multiply:
        def multiply(rows: torch.Tensor, memory: torch.Tensor) -> torch.Tensor:
            tile = memory[: len(rows) * len(low)].view(len(rows), len(low))
            return torch.matmul(rows, low.T, out=tile)

        return multiply

    def near(self, tile: Any, rows: TileLimits, columns: TileLimits) -> Iterator[TilePairs]:
        return kernels.near(tile.view(torch.int16).numpy().view(np.uint16), rows, columns)

    def here(self, estimates: Any) -> np.ndarray:
        found: np.ndarray = estimates.float().numpy()
        return found
