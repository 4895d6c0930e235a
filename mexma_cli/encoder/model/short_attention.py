"""Attention within short sentences on a processor: one operation with a gradient, compiled by Numba.

With torch, a dozen operations start for every length in a batch, which takes longer than computing short
sentences. Here one call computes all sentences of a layer, and a head's scores stay in the processor's cache.
The backward pass computes the scores again, so that nothing is kept of them. Sums are float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch.autograd.function import once_differentiable

from mexma_cli.numerics.compiling import inlined, summing
from mexma_cli.numerics.kernels import draw, plain, read, write
from mexma_cli.numerics.lanes import LANES, exponentials, largest, multiply, scale
from mexma_cli.numerics.threads import each

WIDEST = 128
"""Widest head for which it is faster than torch's attention, as it was measured."""
Scratch = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]
LONGEST = 128
"""Longest sentence, in tokens, for which it is at least as fast as torch's attention."""


def scratch_for(spans: np.ndarray, heads: int, dim: int) -> Scratch:
    """The working memory of a thread: room for rows of tokens; for keys and values as columns, and the same
    by heads; for scores and slopes of scores; and a row of factors, which are 1."""
    longest, width = -(-int(np.max(spans[:, 1] - spans[:, 0])) // LANES) * LANES, heads * dim
    shapes = (7, longest, width + LANES), (2, width, longest), (2, longest, longest)
    rows, columns, scores = (np.zeros(shape, np.float32) for shape in shapes)
    return rows, columns, columns.reshape(2, heads, dim, longest), scores, np.ones(longest, np.float32)


@summing
def attention(states, slope, spans, numbers, scratch, found) -> None:  # pyrefly: ignore[implicit-any-parameter]
    """Attention, or its gradients, in one loop, since two would take longer to compile.

    Args:
        states: Of each token q, k and v, float32 or bfloat16 [T, 3 * H * D] as from `plain`.
        slope: The gradient of attention, [T, H * D] of the same type; without rows to compute attention.
        spans: int64 [S, 2], the start and end of each sentence to compute.
        numbers: float32, factor of the scores; float32, the share of weights to drop; uint32, decides
            which weights are dropped.
        scratch: As from `scratch_for`.
        found: Of the same type; receives attention, [T, H * D], or the gradient of states, as these.
    """
    factor, dropout, seed = numbers
    rows, columns, by_head, scores, kept = scratch
    back, width, words, zero = len(slope) > 0, columns.shape[1], slope.shape[1], np.int64(0)
    heads, dim = by_head.shape[1], by_head.shape[2]
    queries, keys, values, slopes = rows[0], rows[1], rows[2], rows[3]
    weights, others = scores[0], scores[1]
    for sentence in range(len(spans)):
        start, n = spans[sentence, 0], spans[sentence, 1] - spans[sentence, 0]
        for i in range(n):
            for part in range(3):
                row = rows[part, i, :width]
                read(states[start + i, part * words : (part + 1) * words], row)
                if part == 1 or (back and part == 2):
                    for d in range(width):
                        columns[part - 1, d, i] = row[d]
            if back:
                read(slope[start + i], slopes[i, :width])
        for head in range(heads):
            first = head * dim
            multiply(queries, by_head[0, head], weights, (n, dim, n), (first, zero))
            if back:
                multiply(slopes, by_head[1, head], others, (n, dim, n), (first, zero))
            for i in range(n):
                row, other = weights[i, :n], others[i, :n]
                _softmax(weights, i, n, factor)
                if dropout > 0:
                    draw(kept[:n], (start + i) * heads + head, seed, dropout)
                if back:
                    # The softmax's gradient is each weight's gradient less their weighted mean.
                    mean = np.float32(0)
                    for j in range(n):
                        other[j] *= kept[j]
                        mean += other[j] * row[j]
                    for j in range(n):
                        other[j] = (other[j] - mean) * row[j] * factor
                for j in range(n):
                    row[j] *= kept[j]
            if back:
                multiply(others, keys, rows[4], (n, n, dim), (zero, first))
                multiply(others.T, queries, rows[5], (n, n, dim), (zero, first))
                multiply(weights.T, slopes, rows[6], (n, n, dim), (zero, first))
            else:
                multiply(weights, values, rows[4], (n, n, dim), (zero, first))
        for i in range(n):
            for part in range(3 if back else 1):
                write(rows[4 + part, i, :width], found[start + i, part * words : (part + 1) * words])


@inlined
def _softmax(scores: np.ndarray, i: int, n: int, factor: np.float32) -> None:
    """The softmax of n scores of a row times a factor, in place; zeros up to a multiple of 16."""
    scale(scores, i, 0, n, factor)
    whole = (n + 15) // 16 * 16
    for j in range(n, whole):
        scores[i, j] = -np.inf
    total = exponentials(scores, i, whole, largest(scores, i, whole), scores)
    scale(scores, i, 0, n, np.float32(1) / total)
    for j in range(n, whole):  # not the denormal numbers that they are
        scores[i, j] = 0


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
    attended: torch.Tensor = _Attention.apply(states.contiguous(), spans, numbers)
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
    @once_differentiable
    def backward(ctx: Any, slope: torch.Tensor) -> tuple[torch.Tensor | None, ...]:  # pyrefly: ignore[bad-override]
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
