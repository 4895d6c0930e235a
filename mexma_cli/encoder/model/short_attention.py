"""Attention within short sentences on a processor, one operation with a gradient (`attention_kernels`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch.autograd.function import once_differentiable

from mexma_cli.encoder.model.attention_kernels import WIDEST, attention, scratch_for
from mexma_cli.numerics.kernels import plain
from mexma_cli.numerics.threads import each

LONGEST = 128
"""Longest sentence, in tokens, for which it is at least as fast as torch's attention."""


def within_short(states: torch.Tensor, length: int) -> bool:
    """Whether `attend` should compute sentences of so many tokens."""
    return (
        states.device.type == "cpu"
        and states.dtype in (torch.float32, torch.bfloat16)
        and length <= LONGEST
        and states.shape[-1] <= WIDEST
    )


def attend(states: torch.Tensor, lengths: Sequence[int], scale: float | None, dropout: float) -> torch.Tensor:
    """Scaled dot product attention within each sentence. Sums are float32.

    Args:
        states: Query, key and value, float32 or bfloat16 [T, 3, H, D] on the processor.
        lengths: Tokens of each sentence, T in all.
        scale: Factor of the scores; None: 1 / sqrt(D).
        dropout: Share of the weights to drop, drawn with torch's seed.

    Returns:
        [T, H, D] of the same type.
    """
    scale = states.shape[-1] ** -0.5 if scale is None else scale
    seed = int(torch.randint(1 << 32, ())) if dropout else 0
    ends = np.cumsum(lengths)
    spans = np.stack([ends - lengths, ends], axis=1)
    numbers = (np.float32(scale), np.float32(dropout), np.uint32(seed))
    attended: torch.Tensor = _Attention.apply(states.contiguous(), spans, numbers)  # type: ignore[no-untyped-call]
    return attended


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, states: torch.Tensor, spans: np.ndarray, numbers: tuple[Any, ...]) -> torch.Tensor:
        out = torch.empty_like(states[:, 0])
        ctx.spans, ctx.numbers = spans, numbers
        ctx.save_for_backward(states)
        _run(states, out[:0], spans, numbers, out)
        return out

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, slope: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        (states,) = ctx.saved_tensors
        found = torch.empty_like(states)
        _run(states, slope.contiguous(), ctx.spans, ctx.numbers, found)
        return found, None, None


def _run(
    states: torch.Tensor,
    slope: torch.Tensor,
    spans: np.ndarray,
    numbers: tuple[Any, ...],
    found: torch.Tensor,
) -> None:
    """Compute all sentences; results do not depend on the number of threads."""
    given, others, result = (plain(part.detach().flatten(1)) for part in (states, slope, found))
    heads, dim = slope.shape[1:]
    # Each thread takes every n-th sentence, since neighbours have similar lengths.
    parts = min(torch.get_num_threads(), len(spans))

    def work(part: int) -> None:
        own = spans[part::parts].copy()
        attention(given, others, own, numbers, scratch_for(own, heads, dim), result)

    each(parts, work)
