"""Dropout, residual and LayerNorm on a processor as one operation with a gradient, by Numba.

torch's three walk over memory three times each way, and with bfloat16 twice more to convert. Kept for the way
back are the inputs, and a mean and a scale a row.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn
from torch.autograd.function import once_differentiable

from mexma_cli.numerics.compiling import inlined, summing
from mexma_cli.numerics.kernels import draw, normalise, plain, read, write
from mexma_cli.numerics.threads import in_slices


def add_norm(
    x: torch.Tensor, y: torch.Tensor, norm: nn.LayerNorm, share: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """LayerNorm(x + dropout(y)), in float32 and in the type of y.

    Args:
        x: float32 [T, D] on the processor.
        y: float32 or bfloat16 [T, D].
        share: Of y, to drop; drawn with torch's seed (`draw`).
    """
    seed = int(torch.randint(1 << 32, ())) if share else 0
    numbers = np.float32(norm.eps), np.float32(share), np.uint32(seed)
    found = _AddNorm.apply(x, y, norm.weight, norm.bias, numbers)  # type: ignore[no-untyped-call]
    return found[0], found[-1]


class _AddNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, y: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, numbers: Any
    ) -> tuple[torch.Tensor, ...]:
        out, low = torch.empty_like(x), y.new_empty(y.shape if y.dtype != x.dtype else (0, y.shape[1]))
        statistics = torch.empty(len(x), 2)
        # Copies, since FSDP could not free what NumPy has seen.
        weight, bias = weight.detach().clone(), bias.detach().clone()
        given = tuple(plain(part.detach()) for part in (x, y, weight, bias))
        found = tuple(map(plain, (out, low, statistics)))
        in_slices(len(x), lambda first, stop: _forward(first, stop, given, numbers, found), x.numel() * 8)
        ctx.numbers = numbers
        ctx.save_for_backward(x, y, weight, statistics)
        return (out, low) if len(low) else (out,)

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, slope: torch.Tensor, *low_slope: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        saved = ctx.saved_tensors  # read once, as checkpointing wants it
        x, y = saved[:2]
        slopes = [part.contiguous() for part in (slope, *(low_slope or (y[:0],)))]
        of_x, of_y = torch.empty_like(x), torch.empty_like(y)
        given = tuple(map(plain, (*slopes, *(part.detach() for part in saved))))
        found = plain(of_x), plain(of_y)
        sums: dict[int, np.ndarray] = {}  # by slice

        def work(first: int, stop: int) -> None:
            sums[first] = np.zeros((2, x.shape[1]), np.float32)
            _backward(first, stop, given, ctx.numbers, found, sums[first])

        in_slices(len(x), work, x.numel() * 8)
        of_weight, of_bias = torch.from_numpy(sum(sums[first] for first in sorted(sums)))
        return of_x, of_y, of_weight, of_bias, None


@summing
def _forward(first, stop, given, numbers, found) -> None:  # type: ignore[no-untyped-def]
    x, y, weight, bias = given
    out, low, statistics = found
    eps, share, seed = numbers
    kept = np.ones(x.shape[1], np.float32)
    for t in range(first, stop):
        row = out[t]
        _add(x[t], y[t], t, share, seed, kept, row)
        statistics[t, 0], statistics[t, 1] = normalise(row, weight, bias, eps)
        if len(low):
            write(row, low[t])


@summing
def _backward(first, stop, given, numbers, found, sums) -> None:  # type: ignore[no-untyped-def]
    slopes, low_slopes, x, y, weight, statistics = given
    of_x, of_y = found
    _, share, seed = numbers
    of_weight, of_bias = sums[0], sums[1]
    width = x.shape[1]
    kept, normal = np.ones(width, np.float32), np.empty(width, np.float32)
    slope, low = np.empty(width, np.float32), np.zeros(width, np.float32)
    for t in range(first, stop):
        _add(x[t], y[t], t, share, seed, kept, normal)
        mean, scale = statistics[t, 0], statistics[t, 1]
        if len(low_slopes):
            read(low_slopes[t], low)
        total, product = np.float32(0), np.float32(0)
        for j in range(width):
            normal[j] = (normal[j] - mean) * scale
            whole = slopes[t, j] + low[j]
            of_weight[j] += whole * normal[j]
            of_bias[j] += whole
            slope[j] = whole * weight[j]
            total += slope[j]
            product += slope[j] * normal[j]
        total /= np.float32(width)
        product /= np.float32(width)
        for j in range(width):
            inner = (slope[j] - total - normal[j] * product) * scale
            of_x[t, j] = inner
            slope[j] = inner * kept[j]
        write(slope, of_y[t])


@inlined
def _add(x, y, t, share, seed, kept, row) -> None:  # type: ignore[no-untyped-def]
    """The row x + dropout(y), and the factors of dropout."""
    read(y, row)
    if share > 0:
        draw(kept, t, seed, share)
    for j in range(len(row)):
        row[j] = x[j] + row[j] * kept[j]
