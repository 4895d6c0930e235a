"""Token embeddings that hold a direction and a weight, for an XLM-R that computes a bag of embeddings.

A token embedding is ``a u + c n``. u is the token's direction; n is one direction set apart for the logarithm
c of the token's weight; a is such that LayerNorm leaves the embedding as it is. The attention that reads
these weights is written by the objective that trains a bag of embeddings.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from mexma_cli.numerics.quantised import AT_ONCE, QuantisedRows
from mexma_cli.numerics.threads import in_blocks

if TYPE_CHECKING:
    import numpy.typing as npt

RESERVED = 2
"""Dimensions of the transformer that carry no meaning: LayerNorm's mean, and the log weights."""
LARGEST_LOG_WEIGHT = 4.0
"""Log weights are clipped to +- this; e**4 is a weight 55 times the mean's."""
_ROWS = 1 << 7  # whose float64 numbers stay in the processor's cache


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


@dataclass(frozen=True)
class QuantisedEmbeddings:
    """Token embeddings float32 [tokens, width] of which only the rows that are asked for are restored.

    It is indexed as an array is, and NumPy takes it for one.

    Attributes:
        coded: Embeddings but for the rest.
        log_weights: float32 [tokens], what is added along the direction of log weights.
        special: int64 [S], tokens that have embeddings of their own: `rows` float32 [S, width].

    Raises:
        ValueError: They do not fit together.
    """

    coded: QuantisedRows
    log_weights: np.ndarray
    special: np.ndarray
    rows: np.ndarray
    dtype = np.dtype(np.float32)

    def __post_init__(self) -> None:
        tokens, width = self.shape
        fit = self.log_weights.shape == (tokens,) and self.rows.shape == (len(self.special), width)
        fit = fit and self.special.dtype.kind == "i"
        if not fit or not ((self.special >= 0) & (self.special < tokens)).all():
            raise ValueError(f"special tokens or log weights that are not of {tokens:,} embeddings")

    @property
    def shape(self) -> tuple[int, int]:
        """(tokens, width)."""
        return self.coded.shape

    def __len__(self) -> int:
        return len(self.log_weights)

    def __getitem__(self, places: np.ndarray | slice) -> np.ndarray:
        """The rows at these places, float32 [places, width]."""
        ids, axis = np.arange(len(self))[places], weight_axis_and_basis(self.shape[1])[0].astype(np.float32)
        found = np.empty((len(ids), len(axis)), np.float32)

        def some(own: slice) -> None:
            # First a product, then a sum: every processor gets the same bits, and the same fingerprint.
            np.multiply(self.log_weights[ids[own], None], axis, out=found[own])
            found[own] += self.coded[ids[own]]

        in_blocks(len(ids), AT_ONCE, some, found.size)
        for token, row in zip(self.special.tolist(), self.rows, strict=True):
            found[ids == token] = row
        return found

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        return self[:].astype(dtype or self.dtype, copy=False)


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
    most = (math.sqrt(1 + 4 * width) - 1) / 2  # where c + log(a / sqrt(width)) is largest
    largest = min(LARGEST_LOG_WEIGHT, most + math.log(1 - most**2 / width) / 2)
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
