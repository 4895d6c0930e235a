"""How a transformer of XLM-R's family holds a bag of weighted token vectors: its word embeddings.

A word embedding is ``a u + c n``: u a token's direction, n a direction of its own that holds the logarithm c
of the token's weight, a chosen so that LayerNorm leaves the sum as it is. `objectives/words.py` writes the
attention that reads them.
"""

from __future__ import annotations

import math
from functools import cache

import torch
from torch.nn import functional

RESERVED = 2
"""Dimensions of the transformer that carry no word meaning: LayerNorm's mean, and the log weights."""
LARGEST_LOG_WEIGHT = 4.0
"""Half the span of log weights that is kept; e**4 is a weight 55 times the mean's."""


@cache
def frame(width: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The log weights' direction [width], and a basis [width - 2, width] orthogonal to it and to the mean."""
    axis = torch.arange(width, dtype=torch.float64)
    # The cosine basis: row 0 is the mean that LayerNorm removes, row 1 is given to the log weights.
    cosines = torch.cos(math.pi * (axis[None, :] + 0.5) * axis[:, None] / width)
    rows = functional.normalize(cosines, dim=1)
    return rows[1], rows[RESERVED:]


def word_rows(vectors: torch.Tensor, log_weights: torch.Tensor) -> torch.Tensor:
    """Word embeddings [tokens, width] with the directions of vectors and these weights.

    Args:
        vectors: [tokens, width], of any length; what is not in the basis of `frame` is left out.
        log_weights: [tokens], about zero.
    """
    width = vectors.shape[1]
    direction = frame(width)[0].to(vectors)
    largest = min(LARGEST_LOG_WEIGHT, _room(width))
    log_weights = log_weights.clamp(-largest, largest)
    rest = math.sqrt(width) * torch.ones_like(log_weights)
    for _ in range(4):  # a depends on c, and c makes up for what a takes from the weight
        held = log_weights - torch.log(rest / math.sqrt(width))
        rest = torch.sqrt(width - held**2)
    for outside in (direction, torch.full_like(direction, width**-0.5)):
        # No product of matrices: a row has the same bits whatever stands beside it.
        vectors = vectors - (vectors * outside).sum(dim=1, keepdim=True) * outside
    unit = functional.normalize(vectors, dim=1)
    return rest[:, None] * unit + held[:, None] * direction


def _room(width: int) -> float:
    """The largest log weight that a row of this width holds: c + log(a / sqrt(width)) is highest there."""
    held = (math.sqrt(1 + 4 * width) - 1) / 2
    return held + math.log(1 - held**2 / width) / 2
