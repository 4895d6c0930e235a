"""The losses, as pure functions of tensors."""

from __future__ import annotations

import torch
from torch.nn import functional

KOLEO_EPSILON = 1e-8
"""The authors' value; the paper has none."""


def alignment(source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Mean squared error between the sentence vectors of both sides (paper section 3).

    Args:
        source, target: [B, dim], not normalised, as in the authors' code.
    """
    return functional.mse_loss(source.float(), target.float())


def koleo(vectors: torch.Tensor) -> torch.Tensor:
    """Kozachenko-Leonenko entropy estimator: minus the mean log distance to the nearest neighbour.

    As in the authors' code the vectors are normalised first, which the paper leaves out.

    Args:
        vectors: [B, dim]. With B = 1 there is no neighbour and the loss is 0.
    """
    if len(vectors) < 2:
        return vectors.sum() * 0.0
    with torch.autocast(vectors.device.type, enabled=False):
        unit = functional.normalize(vectors.float(), dim=-1, eps=KOLEO_EPSILON)
        with torch.no_grad():
            similarity = unit @ unit.T
            similarity.fill_diagonal_(-1.0)
            nearest = similarity.argmax(dim=1)
        distance = functional.pairwise_distance(unit, unit[nearest], p=2, eps=KOLEO_EPSILON)
        return -torch.log(distance + KOLEO_EPSILON).mean()


def info_nce(
    source: torch.Tensor, target: torch.Tensor, temperature: float, repeated: torch.Tensor
) -> torch.Tensor:
    """Symmetric InfoNCE over the batch: the translation against every other sentence of its side.

    Args:
        source, target: [B, dim]; row i of both are translations.
        temperature: Cosines are divided by it.
        repeated: bool [B, B], pairs that are not each other's negatives.
    """
    with torch.autocast(source.device.type, enabled=False):
        source = functional.normalize(source.float(), dim=-1)
        target = functional.normalize(target.float(), dim=-1)
        logits = (source @ target.T / temperature).masked_fill(repeated, -torch.inf)
        labels = torch.arange(len(logits), device=logits.device)
        forward = functional.cross_entropy(logits, labels)
        backward = functional.cross_entropy(logits.T, labels)
        return (forward + backward) / 2


def unmasking(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Mean cross-entropy over masked tokens (paper section 3); 0 where nothing was masked.

    Args:
        logits: [M, vocabulary] at masked positions only.
        labels: int64 [M], the tokens that stood there.
    """
    if len(labels) == 0:
        return logits.sum() * 0.0
    return functional.cross_entropy(logits.float(), labels)
