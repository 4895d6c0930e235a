"""Token embeddings that hold a direction and a weight, for an XLM-R that computes a bag of embeddings.

A token embedding is ``a u + c n``. u is the token's direction; n is one direction set apart for the logarithm
c of the token's weight; a is such that LayerNorm leaves the embedding as it is. The attention that reads
these weights is written by the objective that trains a bag of embeddings.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np

RESERVED = 2
"""Dimensions of the transformer that carry no meaning: LayerNorm's mean, and the log weights."""
LARGEST_LOG_WEIGHT = 4.0
"""Log weights are clipped to +- this; e**4 is a weight 55 times the mean's."""
_ROWS = 1 << 13  # whose float64 numbers are in memory at a time


@cache
def weight_axis_and_basis(width: int) -> tuple[np.ndarray, np.ndarray]:
    """The direction of log weights [width], and a basis [width - 2, width] orthogonal to it and to the mean.

    Both float64.
    """
    axis = np.arange(width, dtype=np.float64)
    # The cosine basis: row 0 is the mean that LayerNorm removes, row 1 is given to the log weights.
    cosines = np.cos(math.pi * (axis[None, :] + 0.5) * axis[:, None] / width)
    rows = cosines / np.linalg.norm(cosines, axis=1, keepdims=True)
    return rows[1], rows[RESERVED:]


def weighted_embeddings(vectors: np.ndarray, log_weights: np.ndarray) -> np.ndarray:
    """Token embeddings float32 [tokens, width] with the directions of vectors and these weights.

    Args:
        vectors: [tokens, width], of any length; only their part in `weight_axis_and_basis` counts.
        log_weights: [tokens], about zero.
    """
    found = np.empty(vectors.shape, np.float32)
    for start in range(0, len(found), _ROWS):
        rows = slice(start, start + _ROWS)
        found[rows] = _embeddings(vectors[rows].astype(np.float64), log_weights[rows].astype(np.float64))
    return found


def _embeddings(vectors: np.ndarray, log_weights: np.ndarray) -> np.ndarray:
    width = vectors.shape[1]
    direction = weight_axis_and_basis(width)[0]
    largest = min(LARGEST_LOG_WEIGHT, _largest_that_fits(width))
    log_weights = log_weights.clip(-largest, largest)
    rest = np.full(len(vectors), math.sqrt(width))
    for _ in range(4):  # a depends on c, and c must correct the weight for a: a fixed-point iteration
        held = log_weights - np.log(rest / math.sqrt(width))
        rest = np.sqrt(width - held**2)
    for outside in (direction, np.full(width, width**-0.5)):
        # No product of matrices: a row has the same bits whatever stands beside it.
        vectors = vectors - (vectors * outside).sum(axis=1, keepdims=True) * outside
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True).clip(1e-12)
    return rest[:, None] * unit + held[:, None] * direction


def _largest_that_fits(width: int) -> float:
    """The largest log weight that an embedding of this width can hold: max of c + log(a / sqrt(width))."""
    held = (math.sqrt(1 + 4 * width) - 1) / 2
    return held + math.log(1 - held**2 / width) / 2
