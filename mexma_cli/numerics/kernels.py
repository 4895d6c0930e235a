"""Numba loops that several rooms share: bfloat16, exponentials, dropout, LayerNorm.

NumPy has no bfloat16: such arrays are uint16 here, the upper halves of float32's bits.
"""

from __future__ import annotations

import numpy as np
import torch

from mexma_cli.numerics.compiling import inlined, summing


@inlined
def widen(low: np.ndarray, bits: np.ndarray) -> None:
    """Convert bfloat16 to the bits of float32, uint32."""
    for j in range(len(low)):
        bits[j] = np.uint32(low[j]) << np.uint32(16)


@inlined
def narrow(bits: np.ndarray, low: np.ndarray) -> None:
    """Round float32, given as uint32 bits, to the nearest bfloat16, ties to even."""
    for j in range(len(bits)):
        odd = (bits[j] >> np.uint32(16)) & np.uint32(1)
        low[j] = np.uint16((bits[j] + np.uint32(0x7FFF) + odd) >> np.uint32(16))


@inlined
def read(low: np.ndarray, row: np.ndarray) -> None:
    """Copy float32 or bfloat16 to float32."""
    if low.itemsize == 2:
        widen(low, row.view(np.uint32))
    else:
        for j in range(len(low)):
            row[j] = low[j]


@inlined
def write(row: np.ndarray, low: np.ndarray) -> None:
    """Copy float32 to float32 or bfloat16, rounding to nearest."""
    if low.itemsize == 2:
        narrow(row[: len(low)].view(np.uint32), low)
    else:
        for j in range(len(low)):
            low[j] = row[j]


def plain(tensor: torch.Tensor) -> np.ndarray:
    """A tensor's memory as an array for the kernels; bfloat16 becomes uint16."""
    return tensor.view(torch.uint16).numpy() if tensor.dtype == torch.bfloat16 else tensor.numpy()


@inlined
def exponentials(block: np.ndarray, top: np.float32, power: np.ndarray) -> None:
    """exp(block - top) as two factors: `block` becomes one, and `power` the other, as bits of float32.

    exp(x) is 2**n exp(x - n log 2), and the second factor is a polynomial, exact to 1e-7 (Cephes' expf).
    Smaller results than exp(-87) are rounded up to it, so that none is a denormal number.
    """
    for j in range(len(block)):
        x = block[j] - top
        x = np.float32(-87) if x < np.float32(-87) else x
        whole = np.int32(x * np.float32(1.44269504) - np.float32(0.5))
        n = np.float32(whole)
        r = x - n * np.float32(0.693359375) + n * np.float32(2.12194440e-4)
        p = np.float32(1.9875691500e-4)
        p = p * r + np.float32(1.3981999507e-3)
        p = p * r + np.float32(8.3334519073e-3)
        p = p * r + np.float32(4.1665795894e-2)
        p = p * r + np.float32(1.6666665459e-1)
        p = p * r + np.float32(5.0000001201e-1)
        block[j] = p * r * r + r + np.float32(1)
        power[j] = (whole + np.int32(127)) << np.int32(23)


@inlined
def draw(kept: np.ndarray, row: int, seed: np.uint32, dropout: np.float32) -> None:
    """Dropout factors of the numbers in a row: 0 for the share to drop, 1 / (1 - dropout) for the others.

    They depend on row, column and seed only, through the finaliser of MurmurHash3.
    """
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
        normalise(row, weight, bias, eps)


@summing
def add_norm_bf16(
    x: np.ndarray, y: np.ndarray, weight: np.ndarray, bias: np.ndarray, eps: np.float32, out: np.ndarray
) -> None:
    """``x = LayerNorm(x + y)`` in place; `out` receives the same, rounded to bfloat16.

    Args:
        x: float32 [T, D].
        y, out: bfloat16 [T, D].
        weight, bias: float32 [D].
    """
    bits = np.empty(x.shape[1], dtype=np.uint32)
    values = bits.view(np.float32)
    for t in range(len(x)):
        row, other, low = x[t], y[t], out[t]
        widen(other, bits)
        for j in range(len(row)):
            row[j] += values[j]
        normalise(row, weight, bias, eps)
        for j in range(len(row)):
            values[j] = row[j]
        narrow(bits, low)


@inlined
def normalise(
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
