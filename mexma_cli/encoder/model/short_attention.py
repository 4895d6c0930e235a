"""Attention within short sentences on a processor, one operation with a gradient (`attention_kernels`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch.autograd.function import once_differentiable

from mexma_cli.encoder.model import attention_kernels
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
        and states.shape[-1] <= attention_kernels.WIDEST
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
    numbers = (states.shape[2], np.float32(scale), np.float32(dropout), np.uint32(seed))
    attended: torch.Tensor = _Attention.apply(states.contiguous(), spans, numbers)  # type: ignore[no-untyped-call]
    return attended


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, states: torch.Tensor, spans: np.ndarray, numbers: tuple[Any, ...]) -> torch.Tensor:
        tokens, _, heads, dim = states.shape
        out, norms = states.new_empty(tokens, heads, dim), torch.empty(tokens, heads)
        ctx.spans, ctx.numbers = spans, numbers
        ctx.save_for_backward(states, out, norms)
        _run(attention_kernels.forward, (states,), spans, numbers, (norms, out))
        return out

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, slope: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        states, out, norms = ctx.saved_tensors
        found = torch.empty_like(states)
        given = (states, out, slope.contiguous())
        _run(attention_kernels.backward, given, ctx.spans, ctx.numbers, (norms, found))
        return found, None, None


def _run(
    kernel: Callable[..., None],
    given: tuple[torch.Tensor, ...],
    spans: np.ndarray,
    numbers: tuple[Any, ...],
    rest: tuple[torch.Tensor, ...],
) -> None:
    """Run a kernel over all sentences, whose results do not depend on the number of threads."""
    arrays, others = (tuple(plain(part.detach().flatten(1)) for part in parts) for parts in (given, rest))
    # Each thread takes every n-th sentence, since neighbours have similar lengths.
    parts = min(torch.get_num_threads(), len(spans))
    each(parts, lambda part: kernel(arrays, spans[part::parts].copy(), *numbers, *others))
