"""The inner loops of the processor's forward pass, by Numba: several steps in one walk over memory."""

from __future__ import annotations

import functools

import numpy as np
from numba import njit

# Sums may be reordered, so that they become vector instructions; not-a-number keeps its meaning.
_compiled = functools.partial(
    njit, nogil=True, cache=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"}
)


@_compiled
def add_norm(x: np.ndarray, y: np.ndarray, weight: np.ndarray, bias: np.ndarray, eps: np.float32) -> None:
    """``x = LayerNorm(x + y)`` in place.

    Args:
        x, y: float32 [T, D].
        weight, bias: float32 [D].
    """
    for t in range(len(x)):
        row, other = x[t], y[t]
        for j in range(len(row)):
            row[j] += other[j]
        _normalise(row, weight, bias, eps)


@_compiled
def add_norm_bf16(
    x: np.ndarray, y: np.ndarray, weight: np.ndarray, bias: np.ndarray, eps: np.float32, out: np.ndarray
) -> None:
    """``x = LayerNorm(x + y)`` in place, and once more rounded to bfloat16 for the next product.

    Args:
        x: float32 [T, D].
        y, out: bfloat16 [T, D] as uint16 bits, since NumPy does not know the type.
        weight, bias: float32 [D].
    """
    bits = np.empty(x.shape[1], dtype=np.uint32)
    values = bits.view(np.float32)
    for t in range(len(x)):
        row, other, low = x[t], y[t], out[t]
        for j in range(len(row)):
            bits[j] = np.uint32(other[j]) << np.uint32(16)
        for j in range(len(row)):
            row[j] += values[j]
        _normalise(row, weight, bias, eps)
        for j in range(len(row)):
            values[j] = row[j]
        for j in range(len(row)):  # to the nearest, ties to even
            odd = (bits[j] >> np.uint32(16)) & np.uint32(1)
            low[j] = np.uint16((bits[j] + np.uint32(0x7FFF) + odd) >> np.uint32(16))


@_compiled
def _normalise(row: np.ndarray, weight: np.ndarray, bias: np.ndarray, eps: np.float32) -> None:
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
