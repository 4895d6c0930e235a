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


def within_short(query: torch.Tensor, length: int) -> bool:
    """Whether `attend` should compute sentences of so many tokens."""
    return (
        query.device.type == "cpu"
        and query.dtype in (torch.float32, torch.bfloat16)
        and length <= LONGEST
        and query.shape[-1] <= attention_kernels.DIM
    )


def attend(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    lengths: Sequence[int],
    scale: float | None,
    dropout: float,
) -> torch.Tensor:
    """Scaled dot product attention within each sentence. Sums are float32.

    Args:
        query, key, value: float32 or bfloat16 [T, H, D] on the processor.
        lengths: Tokens of each sentence, T in all.
        scale: Factor of the scores; None: 1 / sqrt(D).
        dropout: Share of the weights to drop, drawn with torch's seed.

    Returns:
        [T, H, D] of the same type.
    """
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    seed = int(torch.randint(1 << 32, ())) if dropout else 0
    ends = np.cumsum(lengths)
    spans = np.stack([ends - lengths, ends], axis=1)
    parts = [part.contiguous() for part in (query, key, value)]
    attended: torch.Tensor = _Attention.apply(*parts, spans, scale, dropout, seed)  # type: ignore[no-untyped-call]
    return attended


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        spans: np.ndarray,
        scale: float,
        dropout: float,
        seed: int,
    ) -> torch.Tensor:
        out, norms = torch.empty_like(query), torch.empty(query.shape[:2])
        ctx.numbers = (query.shape[1], np.float32(scale), np.float32(dropout), np.uint32(seed))
        ctx.spans = spans
        ctx.save_for_backward(query, key, value, out, norms)
        given = tuple(map(_array, (query, key, value)))
        _run(attention_kernels.forward, given, spans, ctx.numbers, _array(out), norms.numpy())
        return out

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, *slopes: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        *saved, norms = ctx.saved_tensors
        found = [torch.empty_like(part) for part in saved[:3]]
        given = tuple(map(_array, (*saved, slopes[0].contiguous())))
        rest = (norms.numpy(), tuple(map(_array, found)))
        _run(attention_kernels.backward, given, ctx.spans, ctx.numbers, *rest)
        return (*found, None, None, None, None)


def _run(
    kernel: Callable[..., None],
    given: tuple[np.ndarray, ...],
    spans: np.ndarray,
    numbers: tuple[Any, ...],
    *rest: np.ndarray | tuple[np.ndarray, ...],
) -> None:
    """Run a kernel over all sentences, whose results do not depend on the number of threads."""
    # Each thread takes every n-th sentence, since neighbours have similar lengths.
    parts = min(torch.get_num_threads(), len(spans))
    each(parts, lambda part: kernel(given, spans[part::parts].copy(), *numbers, *rest))


def _array(tensor: torch.Tensor) -> np.ndarray:
    """[T, H * D] in a type that the kernels take."""
    return plain(tensor.detach().flatten(1))
