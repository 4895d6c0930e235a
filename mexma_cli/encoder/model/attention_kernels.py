"""Numba loops for attention within short sentences on a processor, forward and backward.

With torch, a dozen operations start for every length in a batch, which takes longer than computing short
sentences. Here one call computes all sentences of a layer, and a head's scores stay in the processor's cache.
The backward pass computes the scores again, so that nothing is kept of them. Sums are float32.
"""

from __future__ import annotations

import numpy as np

from mexma_cli.numerics.compiling import inlined, summing
from mexma_cli.numerics.kernels import draw, read, write
from mexma_cli.numerics.lanes import LANES, exponentials, largest, multiply, scale

WIDEST = 128
"""Widest head for which it is faster than torch's attention, as it was measured."""
Scratch = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def scratch_for(spans: np.ndarray, heads: int, dim: int) -> Scratch:
    """The working memory of a thread: room for rows of tokens; for keys and values as columns, and the same
    by heads; for scores and slopes of scores; and a row of factors, which are 1."""
    longest, width = -(-int(np.max(spans[:, 1] - spans[:, 0])) // LANES) * LANES, heads * dim
    shapes = (7, longest, width + LANES), (2, width, longest), (2, longest, longest)
    rows, columns, scores = (np.zeros(shape, np.float32) for shape in shapes)
    return rows, columns, columns.reshape(2, heads, dim, longest), scores, np.ones(longest, np.float32)


@summing
def attention(states, slope, spans, numbers, scratch, found) -> None:  # type: ignore[no-untyped-def]
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
