"""Rows and sums of the other processes of a training run for losses, with gradients that come out right.

The rule for every loss term: what is trained is the **mean over processes** of the terms that they
return. Data-parallel training (DDP, and FSDP's reduce-scatter) divides the sum of the processes'
gradients by their number W, so a term that is a mean over a process's own B pairs needs nothing from
here: with B the same everywhere, the mean of the means is the mean over all W x B pairs.

Two kinds of term do need more, and here both end up with the same value in every process:

- a mean over things of which processes have different numbers (masked tokens): `global_mean`;
- a loss in which rows of all processes meet (negatives, neighbours): `all_rows`, from which every process
  computes the whole loss. Of its gradient a process keeps what belongs to its own rows, times W; the
  others hold the rest, and DDP's division by W takes the factor out again.

So after DDP's averaging the gradients are those of one process with all rows. This holds as well with
gradient accumulation (`no_sync`) and a loss scale, as long as all processes weigh and scale alike. Only
the forward passes communicate, so nothing here can get in the way of DDP's own reductions. Every process
must reach every call. Without torch.distributed (or in a group of one) nothing is sent.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch.nn import functional


def process_count() -> int:
    """How many processes train together: W, or 1 without torch.distributed."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def all_rows(x: torch.Tensor) -> torch.Tensor:
    """The rows of all processes, in the order of their ranks; `x` itself if there is but one.

    The gradient of a process's own rows is W times what reaches them here: right for a loss that every
    process computes in the same way from all rows (see the module).

    Args:
        x: [n, ...], any dtype but bool; n may differ between processes (0 is allowed), the rest may not.

    Returns:
        [sum of n, ...].
    """
    if process_count() == 1:
        return x
    rows: torch.Tensor = _AllRows.apply(x)
    return rows


def global_mean(total: torch.Tensor, count: int) -> torch.Tensor:
    """The sum of all processes' `total` over the sum of their `count`; 0 where that is 0.

    The gradient of a process's `total` is W / count of all: DDP's division by W makes it 1 / count.

    Args:
        total: A scalar, the sum over this process's `count` things.
        count: 0 is allowed, as long as `total` is 0 then.
    """
    if process_count() == 1:
        return total / max(count, 1)
    mean: torch.Tensor = _GlobalMean.apply(total, count)
    return mean


class _AllRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        counts = [torch.zeros(1, dtype=torch.int64, device=x.device) for _ in range(process_count())]
        dist.all_gather(counts, torch.tensor([len(x)], device=x.device))
        sizes = torch.cat(counts).tolist()  # one wait for the device, not one a process
        # Processes exchange tensors of one shape: the short ones are filled up, and cut again.
        padded = functional.pad(x, (0, 0) * (x.dim() - 1) + (0, max(sizes) - len(x))).contiguous()
        parts = [torch.empty_like(padded) for _ in sizes]
        dist.all_gather(parts, padded)
        start = sum(sizes[: dist.get_rank()])
        ctx.own = slice(start, start + len(x))
        return torch.cat([part[:size] for part, size in zip(parts, sizes, strict=True)])

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> torch.Tensor:
        return grads[0][ctx.own] * process_count()


class _GlobalMean(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, total: torch.Tensor, count: int) -> torch.Tensor:
        # float64 holds every count exactly, and keeps the order of the addition from mattering.
        both = torch.stack([total.double(), total.new_tensor(count, dtype=torch.float64)])
        dist.all_reduce(both)
        summed, number = both[0], both[1].clamp_min(1)
        ctx.scale = (process_count() / number).to(total.dtype)
        return (summed / number).to(total.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, None]:
        return grads[0] * ctx.scale, None
