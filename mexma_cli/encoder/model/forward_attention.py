"""Attention within the sentences of a packed batch on a processor, forward only, for the engine.

torch's walks over the whole batch many times, and starts anew for every length. Here one call computes a
layer: a sentence's keys as columns and its values stay in the processor's cache, and so do the scores of some
queries. In bfloat16, AVX-512 or AMX multiply pairs of numbers (`lanes.pairs`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from mexma_cli.numerics.compiling import apart, called, summing
from mexma_cli.numerics.kernels import plain, write
from mexma_cli.numerics.lanes import LANES, exponentials, largest, multiply, pairs, scale, tiles


def attend(states: torch.Tensor, heads: int, lengths: Sequence[int], first_only: bool) -> torch.Tensor:
    """Softmax attention within each sentence, with scores as they are. Sums are float32.

    Args:
        states: Query, key and value, float32 or bfloat16 [T, 3 * D] on the processor, contiguous; rows behind
            the sentences are not read.
        heads: Number of heads, which D is a multiple of.
        lengths: Tokens of each of the B sentences.
        first_only: Only the first token of each sentence.

    Returns:
        [T, D] of the same type, or [B, D] with `first_only`; zeros behind the sentences.
    """
    width, given = states.shape[1] // 3, states.numpy() if states.dtype == torch.float32 else None
    if given is None and (pair := pairs()) and width // heads % 2 == 0:
        given = plain(states).view(pair)
    if given is None:
        return attend(states.float(), heads, lengths, first_only).to(states.dtype)
    sizes = np.array(lengths)
    starts, whole = np.cumsum(sizes) - sizes, _padded(sizes)
    rows, counts = (np.arange(len(sizes)), np.ones_like(sizes)) if first_only else (starts, sizes)
    out = states.new_empty(len(sizes) if first_only else len(states), width)
    out[int(counts.sum()) :] = 0
    spans = np.stack([starts, sizes, whole, rows, counts], axis=1)
    _forward(given, given.view(np.uint32), spans, _room(given, heads, width, int(whole.max())), plain(out))
    return out


def _padded(size: Any) -> Any:
    """The next multiple of `LANES`."""
    return -(-size // LANES) * LANES


def _room(states: np.ndarray, heads: int, width: int, longest: int) -> tuple[np.ndarray, ...]:
    """Scratch; of units, which are pairs of numbers or numbers, a head's are a multiple of `LANES`."""
    units = states.shape[1] // 3
    shapes = (
        (heads, _padded(units // heads), longest + 16),  # keys as columns, at no multiple of 4096 bytes
        (LANES, units + LANES),  # rows of keys, then of queries
        (longest, width + LANES),  # values
        (LANES, longest),  # weights
    )
    keys, rows, values, weights = (np.zeros(shape, states.dtype) for shape in shapes)
    scores, sums = np.zeros((LANES, longest), np.float32), np.zeros((LANES, width + LANES), np.float32)
    numbers = weights.view(np.float32 if units == width else np.uint16)
    return keys, rows, values, values.view(np.uint32), scores, weights, numbers, sums


@summing
def _forward(states, words, spans, room, out) -> None:  # pyrefly: ignore[implicit-any-parameter]
    """The work of `attend`, compiled.

    Args:
        states: float32, or the type of `pairs`.
        words: The same memory, uint32.
        spans: int64 [B, 5], of each sentence start, length, length with padding, row of the result, and
            number of queries.
        room: As from `_room`.
        out: As from `plain`.
    """
    keys, rows, values, value_words, scores, weights, numbers, sums = room
    units, width, heads = states.shape[1] // 3, sums.shape[1] - LANES, len(keys)
    inner, dim = units // heads, width // heads
    zero = np.int64(0)
    tiles(rows, True)
    for sentence in range(len(spans)):
        start, n, whole = spans[sentence, 0], spans[sentence, 1], spans[sentence, 2]
        for first in range(0, n, LANES):
            size = n - first if n - first < LANES else LANES
            _copy(states, start + first, size, units, rows)
            _turn(rows, size, inner, keys, first)
        along = n
        if units < width:
            along = whole // 2
            _pair(words, start, n, whole, value_words)
        else:
            _copy(states, start, n, 2 * units, values)
        count = spans[sentence, 4]
        for first in range(0, count, LANES):
            size = count - first if count - first < LANES else LANES
            _copy(states, start + first, size, zero, rows)
            for head in range(heads):
                multiply(rows, keys[head], scores, (size, keys.shape[1], n), (head * inner, zero))
                _soften(scores, size, n, whole, numbers)
                multiply(weights, values, sums, (size, along, dim), (zero, head * dim))
                for i in range(size):
                    scale(sums, i, head * dim, dim, np.float32(1) / scores[i, 0])
            _write(sums, size, out, spans[sentence, 3] + first)
    tiles(rows, False)


@called
def _copy(states: np.ndarray, start: int, n: int, first: int, rows: np.ndarray) -> None:
    """A third of each token's units."""
    apart()
    for i in range(n):
        given, row = states[start + i, first:], rows[i]
        for unit in range(states.shape[1] // 3):
            row[unit] = given[unit]


@called
def _turn(rows: np.ndarray, size: int, inner: int, keys: np.ndarray, first: int) -> None:
    """Rows of keys as columns."""
    apart()
    for head in range(len(keys)):
        for unit in range(inner):
            for i in range(size):
                keys[head, unit, first + i] = rows[i, head * inner + unit]


@called
def _pair(words: np.ndarray, start: int, n: int, whole: int, values: np.ndarray) -> None:
    """Values of two tokens as pairs, and zeros behind them."""
    apart()
    units, half, low = words.shape[1] // 3, np.uint32(16), np.uint32(0xFFFF)
    for i in range(0, n, 2):
        one, other = words[start + i, 2 * units :], words[start + i + (i + 1 < n), 2 * units :]
        row = values[i // 2]
        for unit in range(units):
            row[2 * unit] = (one[unit] & low) | (other[unit] << half)
            row[2 * unit + 1] = (one[unit] >> half) | (other[unit] & ~low)
    values[(n + 1) // 2 : whole // 2] = 0


@called
def _soften(scores: np.ndarray, size: int, n: int, whole: int, weights: np.ndarray) -> None:
    """Exponentials of scores less the largest; their sums become the first scores."""
    apart()
    for i in range(size):
        for j in range(n, whole):
            scores[i, j] = -np.inf
        scores[i, 0] = exponentials(scores, i, whole, largest(scores, i, whole), weights)


@called
def _write(sums: np.ndarray, size: int, out: np.ndarray, first: int) -> None:
    apart()
    for i in range(size):
        write(sums[i, : sums.shape[1] - LANES], out[first + i])
