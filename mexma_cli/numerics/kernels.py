"""Numba loops that several rooms share: bfloat16, dropout, LayerNorm.

NumPy has no bfloat16. So that loops are compiled once for both types, numbers come and go as words, uint16
(`plain`).
"""

from __future__ import annotations

import numpy as np
import torch

from mexma_cli.numerics.compiling import apart, as_bits, called, inlined, summing


def plain(tensor: torch.Tensor) -> np.ndarray:
    """A tensor's memory as words for `read` and `write`, uint16: one a number of bfloat16, two of float32."""
    low = tensor.dtype == torch.bfloat16
    return tensor.view(torch.uint16).numpy() if low else tensor.numpy().view(np.uint16)


@called
def read(words: np.ndarray, row: np.ndarray) -> None:
    """Copy bfloat16 or float32, as from `plain`, to float32."""
    apart()
    if len(words) == len(row):
        for j in range(len(row)):
            row[j] = as_bits(np.uint32(np.uint32(words[j]) << np.uint32(16)), np.float32)
    else:
        for j in range(len(row)):
            high = np.uint32(words[2 * j + 1]) << np.uint32(16)
            row[j] = as_bits(np.uint32(np.uint32(words[2 * j]) | high), np.float32)


@called
def write(row: np.ndarray, words: np.ndarray) -> None:
    """Copy float32 to float32 or bfloat16, rounding to the nearest, ties to even."""
    apart()
    if len(words) == len(row):
        for j in range(len(row)):
            bits = as_bits(np.float32(row[j]), np.uint32)
            odd = (bits >> np.uint32(16)) & np.uint32(1)
            words[j] = np.uint32(bits + np.uint32(0x7FFF) + odd) >> np.uint32(16)
    else:
        for j in range(len(row)):
            bits = as_bits(np.float32(row[j]), np.uint32)
            words[2 * j], words[2 * j + 1] = bits, bits >> np.uint32(16)


@called
def draw(kept: np.ndarray, row: int, seed: np.uint32, dropout: np.float32) -> None:
    """Dropout factors of the numbers in a row: 0 for the share to drop, 1 / (1 - dropout) for the others.

    They depend on row, column and seed only, through the finaliser of MurmurHash3.
    """
    apart()
    limit = np.uint32(dropout * np.float32(4294967040))
    factor = np.float32(1) / (np.float32(1) - dropout)
    start = _mixed(np.uint32(row) ^ seed)
    for j in range(len(kept)):
        bits = _mixed(np.uint32(start + np.uint32(j) * np.uint32(0x9E3779B9)))
        kept[j] = factor if bits >= limit else np.float32(0)


@inlined
def _mixed(bits: np.uint32) -> np.uint32:
    bits = np.uint32((bits ^ (bits >> np.uint32(16))) * np.uint32(0x85EBCA6B))  # Numba's product has 64 bits
    bits = np.uint32((bits ^ (bits >> np.uint32(13))) * np.uint32(0xC2B2AE35))
    return bits ^ (bits >> np.uint32(16))


@summing
def add_norm(places, given, numbers, found, room) -> None:  # pyrefly: ignore[implicit-any-parameter]
    """LayerNorm(x + dropout(y)) of some rows.

    Args:
        places: The first row and the row to stop before.
        given: x, float32 [T, D]; y as from `plain`, [T, D or 2 D]; weight and bias, float32 [D].
        numbers: LayerNorm's eps, the share of y to drop, and the seed of `draw`.
        found: Receives the results: float32 [T, D], which may be x; the same in the type of y, or an array
            without rows; and float32 [T, 2], what was taken from a row and what it was then multiplied by.
        room: float32 [2, D], ones.
    """
    x, y, weight, bias = given
    eps, share, seed = numbers
    out, low, statistics = found
    kept, line = room[0], room[1]
    for t in range(places[0], places[1]):
        row = out[t]
        add_dropped(x[t], y[t], t, share, seed, kept, line, row)
        statistics[t, 0], statistics[t, 1] = _normalise(row, weight, bias, eps)
        if len(low):
            write(row, low[t])


@inlined
def add_dropped(x, y, t, share, seed, kept, line, row) -> None:  # pyrefly: ignore[implicit-any-parameter]
    """The row x + dropout(y), and the factors of dropout; `line` is scratch."""
    read(y, line)
    if share > 0:
        draw(kept, t, seed, share)
    for j in range(len(row)):
        row[j] = x[j] + line[j] * kept[j]


@inlined
def _normalise(
    row: np.ndarray, weight: np.ndarray, bias: np.ndarray, eps: np.float32
) -> tuple[np.float32, np.float32]:
    """LayerNorm in place; what was taken from the row and what it was then multiplied by."""
    total = np.float32(0)
    for j in range(len(row)):
        total += row[j]
    mean = total / np.float32(len(row))
    squares = np.float32(0)
    for j in range(len(row)):
        row[j] -= mean
        squares += row[j] * row[j]
    scale = np.float32(1) / np.sqrt(squares / np.float32(len(row)) + eps)
    for j in range(len(row)):
        row[j] = row[j] * scale * weight[j] + bias[j]
    return mean, scale
