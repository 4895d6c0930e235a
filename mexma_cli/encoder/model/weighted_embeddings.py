"""Token embeddings that hold a direction and a weight, for an XLM-R that computes a bag of embeddings.

A token embedding is ``a u + c n``. u is the token's direction; n is one direction set apart for the logarithm
c of the token's weight; a is such that LayerNorm leaves the embedding as it is. The attention that reads
these weights is written by the objective that trains a bag of embeddings.
"""

from __future__ import annotations

import math
from functools import cache

import torch
from torch.nn import functional

RESERVED = 2
"""Dimensions of the transformer that carry no meaning: LayerNorm's mean, and the log weights."""
LARGEST_LOG_WEIGHT = 4.0
"""Log weights are clipped to +- this; e**4 is a weight 55 times the mean's."""


@cache
def weight_axis_and_basis(width: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The direction of log weights [width], and a basis [width - 2, width] orthogonal to it and to the mean.

    Both float64.
    """
    axis = torch.arange(width, dtype=torch.float64)
    # The cosine basis: row 0 is the mean that LayerNorm removes, row 1 is given to the log weights.
    cosines = torch.cos(math.pi * (axis[None, :] + 0.5) * axis[:, None] / width)
    rows = functional.normalize(cosines, dim=1)
    return rows[1], rows[RESERVED:]


def weighted_embeddings(vectors: torch.Tensor, log_weights: torch.Tensor) -> torch.Tensor:
    """Token embeddings [tokens, width] with the directions of vectors and these weights.

    Args:
        vectors: [tokens, width], of any length; only their part in `weight_axis_and_basis` counts.
        log_weights: [tokens], about zero.
    """
    width = vectors.shape[1]
    direction = weight_axis_and_basis(width)[0].to(vectors)
    largest = min(LARGEST_LOG_WEIGHT, _largest_that_fits(width))
    log_weights = log_weights.clamp(-largest, largest)
    rest = math.sqrt(width) * torch.ones_like(log_weights)
    for _ in range(4):  # a depends on c, and c must correct the weight for a: a fixed-point iteration
        held = log_weights - torch.log(rest / math.sqrt(width))
        rest = torch.sqrt(width - held**2)
    for outside in (direction, torch.full_like(direction, width**-0.5)):
        # No product of matrices: a row has the same bits whatever stands beside it.
        vectors = vectors - (vectors * outside).sum(dim=1, keepdim=True) * outside
    unit = functional.normalize(vectors, dim=1)
    return rest[:, None] * unit + held[:, None] * direction


def _largest_that_fits(width: int) -> float:
    """The largest log weight that an embedding of this width can hold: max of c + log(a / sqrt(width))."""
    held = (math.sqrt(1 + 4 * width) - 1) / 2
    return held + math.log(1 - held**2 / width) / 2
