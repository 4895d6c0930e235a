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

from mexma_cli.numerics import kernels
from mexma_cli.numerics.compiling import summing
from mexma_cli.numerics.kernels import add_dropped, plain, read, write
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
        given = x.detach().numpy(), plain(y.detach()), weight.numpy(), bias.numpy()
        found = out.numpy(), plain(low), statistics.numpy()

        def work(*places: int) -> None:
            kernels.add_norm(places, given, numbers, found, np.ones((2, x.shape[1]), np.float32))

        in_slices(len(x), work, x.numel() * 8)
        ctx.numbers = numbers
        ctx.save_for_backward(x, y, weight, statistics)
        return (out, low) if len(low) else (out,)

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, slope: torch.Tensor, *low_slope: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        saved = ctx.saved_tensors  # read once, as checkpointing wants it
        x, y = saved[:2]
        low = low_slope[0].contiguous() if low_slope else y[:0].detach()
        of_x, of_y = torch.empty_like(x), torch.empty_like(y)
        slopes, states, weight, statistics = (
            part.detach().contiguous().numpy() for part in (slope, x, *saved[2:])
        )
        given = slopes, plain(low), states, plain(y.detach()), weight, statistics
        found = of_x.numpy(), plain(of_y)
        sums: dict[int, np.ndarray] = {}  # by slice

        def work(first: int, stop: int) -> None:
            sums[first] = np.zeros((2, x.shape[1]), np.float32)
            room = np.ones((4, x.shape[1]), np.float32)
            _backward((first, stop), given, ctx.numbers, found, sums[first], room)

        in_slices(len(x), work, x.numel() * 8)
        of_weight, of_bias = torch.from_numpy(sum(sums[first] for first in sorted(sums)))
        return of_x, of_y, of_weight, of_bias, None


@summing
def _backward(places, given, numbers, found, sums, room) -> None:  # type: ignore[no-untyped-def]
    slopes, low_slopes, x, y, weight, statistics = given
    of_x, of_y = found
    _, share, seed = numbers
    kept, normal, slope, low = room[0], room[1], room[2], room[3]
    for j in range(len(low)):
        low[j] = 0
    of_weight, of_bias = sums[0], sums[1]
    for t in range(places[0], places[1]):
        add_dropped(x[t], y[t], t, share, seed, kept, slope, normal)
        mean, scale = statistics[t, 0], statistics[t, 1]
        if len(low_slopes):
            read(low_slopes[t], low)
        total, product, row, result = np.float32(0), np.float32(0), slopes[t], of_x[t]
        for j in range(len(row)):
            normal[j] = (normal[j] - mean) * scale
            whole = row[j] + low[j]
            of_weight[j] += whole * normal[j]
            of_bias[j] += whole
            slope[j] = whole * weight[j]
            total += slope[j]
            product += slope[j] * normal[j]
        total /= np.float32(len(row))
        product /= np.float32(len(row))
        for j in range(len(row)):
            result[j] = (slope[j] - total - normal[j] * product) * scale
            slope[j] = result[j] * kept[j]
        write(slope, of_y[t])
