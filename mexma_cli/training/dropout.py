"""Dropout on a processor: what is left out is computed from its place, on both ways.

torch draws a number for each with a generator that runs on one core, and keeps them all until the way back.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn
from torch.autograd.function import once_differentiable

from mexma_cli.numerics.compiling import summing
from mexma_cli.numerics.kernels import draw
from mexma_cli.numerics.threads import in_slices

BLOCK = 1024
"""Numbers whose factors are drawn together."""
_ROWS = 32  # blocks that are multiplied together: few enough for torch to do it on one thread


def hasten_dropout(module: nn.Module) -> None:
    """Let all of torch's dropout layers in a module compute by `Dropout`; nothing else about them changes."""
    for part in module.modules():
        if type(part) is nn.Dropout:
            part.__class__ = Dropout


class Dropout(nn.Dropout):
    """torch's, except for which numbers it leaves out: they follow from one that torch's generator draws."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Zeros for a share p of the numbers, and the others by 1 / (1 - p), while training."""
        fits = input.device.type == "cpu" and input.dtype in (torch.float32, torch.bfloat16)
        if not (self.training and 0 < self.p < 1 and fits):
            return super().forward(input)
        seed = int(torch.randint(1 << 32, ()))
        kept: torch.Tensor = _Dropped.apply(input, self.p, seed)  # type: ignore[no-untyped-call]
        return kept


class _Dropped(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, share: float, seed: int) -> torch.Tensor:
        ctx.numbers = (np.float32(share), np.uint32(seed))
        return _drop(x, *ctx.numbers)

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, slope: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        return _drop(slope, *ctx.numbers), None, None


def _drop(x: torch.Tensor, share: np.float32, seed: np.uint32) -> torch.Tensor:
    x = x.detach().contiguous()
    out = torch.empty_like(x)
    given, found = x.flatten().split(_ROWS * BLOCK), out.flatten().split(_ROWS * BLOCK)

    def work(first: int, stop: int) -> None:
        factors = np.empty((_ROWS, BLOCK), np.float32)
        for part in range(first, stop):
            _draw(factors, part * _ROWS, seed, share)
            torch.mul(given[part], torch.from_numpy(factors.ravel()[: len(given[part])]), out=found[part])

    in_slices(len(given), work, x.numel())
    return out


@summing
def _draw(factors: np.ndarray, first: int, seed: np.uint32, share: np.float32) -> None:
    for row in range(len(factors)):
        draw(factors[row], first + row, seed, share)
