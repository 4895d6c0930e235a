"""The inner loops of the search for neighbours, compiled by Numba: no matrix library has them.

A pair's cosine is exact (see units.py), so it is the same number to the last bit however the matrix was cut
into tiles, from whichever direction the pair was found, on every processor, and after a resumed run.
"""

from __future__ import annotations

import numpy as np

from mexma_cli.knn.keys import EMPTY
from mexma_cli.numerics.compiling import as_bits, called, compiled, inner
from mexma_cli.numerics.threads import in_slices


def dots(x: np.ndarray, y: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """`units.dots`, compiled."""
    out = np.empty(len(rows), dtype=np.float32)
    work = len(rows) * x.shape[1]
    in_slices(len(rows), lambda a, b: _dots(x, y, rows[a:b], columns[a:b], out[a:b]), work)
    return out


@called
def dot(a: np.ndarray, b: np.ndarray) -> np.float32:
    """The dot product of two unit vectors, exact before it is rounded (of other rows: nearly)."""
    total = np.float64(0)
    for i in range(len(a)):
        total += np.float64(a[i]) * np.float64(b[i])
    return np.float32(total)


@called
def product(a: np.ndarray, b: np.ndarray) -> np.float32:
    """The dot product of two rows, in float32: twice as fast as `dot`, and rounded anyhow."""
    total = np.float32(0)
    for i in range(len(a)):
        total += a[i] * b[i]
    return total


@compiled()
def _dots(x: np.ndarray, y: np.ndarray, rows: np.ndarray, columns: np.ndarray, out: np.ndarray) -> None:
    for pair in range(len(rows)):
        out[pair] = dot(x[rows[pair]], y[columns[pair]])


@inner
def key(score: np.float32, row: int) -> np.int64:
    """`keys_of` of one score and row."""
    bits = np.int64(as_bits(np.float32(score + np.float32(0)), np.int32))  # -0.0 becomes 0.0
    ordered = bits if bits >= 0 else bits ^ np.int64(0x7FFFFFFF)
    return (ordered << np.int64(32)) | (np.int64(0xFFFFFFFF) - np.int64(row))


@inner
def score_of(key: np.int64) -> np.float32:
    """The score in a key; -inf for EMPTY."""
    if key == EMPTY:
        return np.float32(-np.inf)
    ordered = np.int32(key >> np.int64(32))
    return as_bits(np.int32(ordered if ordered >= 0 else ordered ^ np.int32(0x7FFFFFFF)), np.float32)
