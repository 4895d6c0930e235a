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
from mexma_cli.numerics.lanes import LANES, multiply

WIDEST = 128
"""Widest head for which it is faster than torch's attention, as it was measured."""


@summing
def forward(given, spans, heads, scale, dropout, seed, norms, out) -> None:  # type: ignore[no-untyped-def]
    """Attention, and the norms of the softmax that the backward pass needs.

    Args:
        given: Of each token q, k and v, float32 or bfloat16 [T, 3 * H * D].
        spans: int64 [S, 2], the start and end of each sentence to compute.
        heads: H.
        scale: float32, factor of the scores.
        dropout: float32, the share of weights to drop.
        seed: uint32, decides which weights are dropped.
        norms: float32 [T, H], the logarithms of the softmax's sums.
        out: [T, H * D] of the same type; receives the result.
    """
    (states,) = given
    width = out.shape[1]
    dim = width // heads
    longest = _padded(np.max(spans[:, 1] - spans[:, 0]))
    room = np.zeros((3, longest, width + LANES), np.float32)
    queries, values, sums = room[0], room[1], room[2]
    turned_keys = np.zeros((width, longest), np.float32)
    scores, kept = np.zeros((longest, longest), np.float32), np.ones(longest, np.float32)
    line, power = np.empty(width, np.float32), np.empty(longest, np.int32)
    for sentence in range(len(spans)):
        start = spans[sentence, 0]
        n = spans[sentence, 1] - start
        whole = _padded(n)
        for i in range(n):
            read(states[start + i, :width], queries[i])
            _turn(states[start + i, width : 2 * width], line, turned_keys, i)
            read(states[start + i, 2 * width :], values[i])
        for head in range(heads):
            first = head * dim
            multiply(queries[:, first:], turned_keys[first:], n, dim, n, scores)
            for i in range(n):
                weights = scores[i, :whole]
                top = _scale(weights, n, scale)
                total = _softmax(weights, top, power)
                norms[start + i, head] = top + np.log(total)
                if dropout > 0:
                    draw(kept[:whole], (start + i) * heads + head, seed, dropout)
                inverse = np.float32(1) / total
                for j in range(whole):
                    weights[j] *= kept[j] * inverse
            multiply(scores, values[:, first:], n, n, dim, sums[:, first:])
        for i in range(n):
            write(sums[i, :width], out[start + i])


@summing
def backward(given, spans, heads, scale, dropout, seed, norms, found) -> None:  # type: ignore[no-untyped-def]
    """The gradients of `forward`.

    Args:
        given: As in `forward`; out, and the gradient of out.
        spans, heads, scale, dropout, seed, norms: As in `forward`.
        found: As what is given first; receives its gradient.
    """
    states, out, slope = given
    width = out.shape[1]
    dim = width // heads
    longest = _padded(np.max(spans[:, 1] - spans[:, 0]))
    room = np.zeros((7, longest, width + LANES), np.float32)
    queries, keys, sums, slopes, results = room[0], room[1], room[2], room[3], room[4:]
    turned = np.zeros((2, width, longest), np.float32)
    turned_keys, turned_values = turned[0], turned[1]
    squares = np.zeros((2, longest, longest), np.float32)
    scores, score_slopes = squares[0], squares[1]
    line, kept = np.empty(width, np.float32), np.ones(longest, np.float32)
    power = np.empty(longest, np.int32)
    for sentence in range(len(spans)):
        start = spans[sentence, 0]
        n = spans[sentence, 1] - start
        whole = _padded(n)
        for i in range(n):
            read(states[start + i, :width], queries[i])
            read(states[start + i, width : 2 * width], keys[i])
            _turn(states[start + i, width : 2 * width], line, turned_keys, i)
            _turn(states[start + i, 2 * width :], line, turned_values, i)
            read(out[start + i], sums[i])
            read(slope[start + i], slopes[i])
        for head in range(heads):
            first = head * dim
            multiply(queries[:, first:], turned_keys[first:], n, dim, n, scores)
            multiply(slopes[:, first:], turned_values[first:], n, dim, n, score_slopes)
            for i in range(n):
                weights, weight_slopes = scores[i, :whole], score_slopes[i, :whole]
                _scale(weights, n, scale)
                _softmax(weights, norms[start + i, head], power)
                if dropout > 0:
                    draw(kept[:whole], (start + i) * heads + head, seed, dropout)
                # The softmax's gradient is each weight's gradient less their weighted mean, `mean`.
                mean = np.float32(0)
                for d in range(first, first + dim):
                    mean += slopes[i, d] * sums[i, d]
                for j in range(whole):
                    weight_slopes[j] = (weight_slopes[j] * kept[j] - mean) * weights[j] * scale
                    weights[j] *= kept[j]
            multiply(score_slopes, keys[:, first:], n, n, dim, results[0, :, first:])
            multiply(score_slopes.T, queries[:, first:], n, n, dim, results[1, :, first:])
            multiply(scores.T, slopes[:, first:], n, n, dim, results[2, :, first:])
        for i in range(n):
            for part in range(3):
                write(results[part, i, :width], found[start + i, part * width : (part + 1) * width])


# Rows of scores are taken up to a multiple of `LANES`, as vector instructions take them. What stands beyond
# the last score is minus infinity before the softmax, and in no sum behind it.


@inlined
def _padded(size: int) -> int:
    """The next multiple of `LANES`."""
    return (size + LANES - 1) // LANES * LANES


@inlined
def _scale(scores: np.ndarray, n: int, scale: np.float32) -> np.float32:
    """The first n scores times a factor, in place, and the largest."""
    scores[n:] = -np.inf
    top = np.float32(-np.inf)
    for j in range(len(scores)):
        scores[j] *= scale
        top = max(top, scores[j])
    return top


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


@inlined
def _turn(x: np.ndarray, line: np.ndarray, columns: np.ndarray, i: int) -> None:
    """Copy a float32 or bfloat16 row to a float32 column."""
    read(x, line)
    for d in range(len(line)):
        columns[d, i] = line[d]
