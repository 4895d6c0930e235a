"""Numba loops for attention within short sentences on a processor, forward and backward.

With torch, a dozen operations start for every length in a batch, which takes longer than computing short
sentences. Here one call computes all sentences of a layer, and a head's scores stay in the processor's cache.
The backward pass computes the scores again, so that only the norms of the softmax are kept. NumPy has no
bfloat16: such arrays are uint16. Sums are float32.
"""

from __future__ import annotations

import numpy as np

from mexma_cli.numerics.compiling import inlined, summing
from mexma_cli.numerics.kernels import draw, exponentials, read, write

DIM = 64
"""Width of a head, with zeros if it is narrower: loops of known length become vector instructions."""


@summing
def forward(given, spans, heads, scale, dropout, seed, norms, out) -> None:  # type: ignore[no-untyped-def]
    """Attention, and the norms of the softmax that the backward pass needs.

    Args:
        given: Of each token q, k and v, float32 or bfloat16 [T, 3 * H * D], D up to DIM.
        spans: int64 [S, 2], the start and end of each sentence to compute.
        heads: H.
        scale: float32, factor of the scores.
        dropout: float32, the share of weights to drop.
        seed: uint32, decides which weights are dropped.
        norms: float32 [T, H], the logarithms of the softmax's sums.
        out: [T, H * D] of the same type; receives the result.
    """
    (states,) = given
    longest = np.max(spans[:, 1] - spans[:, 0])
    room = np.zeros((4, longest, DIM), np.float32)
    queries, keys, values, sums = room[0], room[1], room[2], room[3]
    scores, kept = np.empty(longest, np.float32), np.empty(longest, np.float32)
    power = np.empty(longest, np.int32)
    for sentence in range(len(spans)):
        start = spans[sentence, 0]
        n = spans[sentence, 1] - start
        weights = scores[:n]
        for head in range(heads):
            for part in range(3):
                _take(states, start, n, part * heads + head, 3 * heads, room[part])
            for i in range(n):
                _dots(queries[i], keys, scale, weights)
                top = np.float32(-np.inf)
                for j in range(n):
                    top = max(top, weights[j])
                total = _softmax(weights, top, power)
                inverse = np.float32(1) / total
                for j in range(n):
                    weights[j] *= inverse
                norms[start + i, head] = top + np.log(total)
                if dropout > 0:
                    draw(kept[:n], (start + i) * heads + head, seed, dropout)
                    for j in range(n):
                        weights[j] *= kept[j]
                _combine(weights, values, sums[i])
            _put(sums, n, out, start, head, heads)


@summing
def backward(given, spans, heads, scale, dropout, seed, norms, found) -> None:  # type: ignore[no-untyped-def]
    """The gradients of `forward`.

    Args:
        given: As in `forward`; out, and the gradient of out.
        spans, heads, scale, dropout, seed, norms: As in `forward`.
        found: As what is given first; receives its gradient.
    """
    states, out, slope = given
    longest = np.max(spans[:, 1] - spans[:, 0]) + 3  # rows are taken by fours
    room = np.zeros((8, longest, DIM), np.float32)
    queries, keys, values, sums, slopes = room[0], room[1], room[2], room[3], room[4]
    results = room[5:]
    four = np.zeros((2, 4, longest), np.float32)
    kept, power = np.ones(longest, np.float32), np.empty(longest, np.int32)
    for sentence in range(len(spans)):
        start = spans[sentence, 0]
        n = spans[sentence, 1] - start
        for head in range(heads):
            for part in range(3):
                _take(states, start, n, part * heads + head, 3 * heads, room[part])
            _take(out, start, n, head, heads, sums)
            _take(slope, start, n, head, heads, slopes)
            results[:, :n] = 0
            for first in range(0, n, 4):
                for row in range(4):
                    i = first + row
                    weights, score_slopes = four[0, row, :n], four[1, row, :n]
                    if i >= n:
                        weights[:] = 0
                        score_slopes[:] = 0
                        continue
                    _dots(queries[i], keys, scale, weights)
                    _softmax(weights, norms[start + i, head], power)
                    _dots(slopes[i], values, np.float32(1), score_slopes)
                    if dropout > 0:
                        draw(kept[:n], (start + i) * heads + head, seed, dropout)
                    # The softmax's gradient is each weight's gradient less their weighted mean, `mean`.
                    mean = np.float32(0)
                    for d in range(DIM):
                        mean += slopes[i, d] * sums[i, d]
                    for j in range(n):
                        score_slopes[j] = (score_slopes[j] * kept[j] - mean) * weights[j] * scale
                        weights[j] *= kept[j]
                    _combine(score_slopes, keys, results[0, i])
                _spread(four[1], queries[first : first + 4], n, results[1])
                _spread(four[0], slopes[first : first + 4], n, results[2])
            for part in range(3):
                _put(results[part], n, found, start, part * heads + head, 3 * heads)


@inlined
def _softmax(scores: np.ndarray, norm: np.float32, power: np.ndarray) -> np.float32:
    """exp(scores - norm) in place, and its sum."""
    total = np.float32(0)
    exponentials(scores, norm, power[: len(scores)])
    factors = power.view(np.float32)
    for j in range(len(scores)):
        scores[j] *= factors[j]
        total += scores[j]
    return total


# The three products: [dim] x [n, dim] -> [n], [n] x [n, dim] -> [dim], and [4, n] x [4, dim] -> [n, dim].
# Four rows at a time, written out, so that a number is read and written once for four rows.


@inlined
def _dots(x: np.ndarray, rows: np.ndarray, scale: np.float32, out: np.ndarray) -> None:
    whole = len(out) // 4 * 4
    for r in range(0, whole, 4):
        first, second, third, fourth = np.float32(0), np.float32(0), np.float32(0), np.float32(0)
        for d in range(DIM):
            first += x[d] * rows[r, d]
            second += x[d] * rows[r + 1, d]
            third += x[d] * rows[r + 2, d]
            fourth += x[d] * rows[r + 3, d]
        out[r], out[r + 1] = first * scale, second * scale
        out[r + 2], out[r + 3] = third * scale, fourth * scale
    for r in range(whole, len(out)):
        total = np.float32(0)
        for d in range(DIM):
            total += x[d] * rows[r, d]
        out[r] = total * scale


@inlined
def _combine(weights: np.ndarray, rows: np.ndarray, out: np.ndarray) -> None:
    whole = len(weights) // 4 * 4
    out[:] = 0
    for r in range(0, whole, 4):
        first, second, third, fourth = weights[r], weights[r + 1], weights[r + 2], weights[r + 3]
        for d in range(DIM):
            out[d] += (
                first * rows[r, d]
                + second * rows[r + 1, d]
                + third * rows[r + 2, d]
                + fourth * rows[r + 3, d]
            )
    for r in range(whole, len(weights)):
        for d in range(DIM):
            out[d] += weights[r] * rows[r, d]


@inlined
def _spread(weights: np.ndarray, rows: np.ndarray, n: int, out: np.ndarray) -> None:
    """Add the product to `out`."""
    for j in range(n):
        first, second, third, fourth = weights[0, j], weights[1, j], weights[2, j], weights[3, j]
        for d in range(DIM):
            out[j, d] += first * rows[0, d] + second * rows[1, d] + third * rows[2, d] + fourth * rows[3, d]


@inlined
def _take(x, start, n, head, heads, rows) -> None:  # type: ignore[no-untyped-def]
    """Copy a head of n tokens to the first columns of float32 rows."""
    dim = x.shape[1] // heads
    for i in range(n):
        read(x[start + i, head * dim : (head + 1) * dim], rows[i])


@inlined
def _put(rows, n, x, start, head, heads) -> None:  # type: ignore[no-untyped-def]
    """Copy float32 rows back to a head of n tokens."""
    dim = x.shape[1] // heads
    for i in range(n):
        write(rows[i], x[start + i, head * dim : (head + 1) * dim])
