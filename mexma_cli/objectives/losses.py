"""The losses, as pure functions of tensors."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from mexma_cli.objectives.gather import global_mean

KOLEO_EPSILON = 1e-8
"""The authors' value; the paper has none."""
CHUNK_ROWS = 256
"""Masked tokens whose logits exist at once."""


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
    source: torch.Tensor,
    target: torch.Tensor,
    temperature: float,
    repeated: torch.Tensor,
    margin: float = 0.0,
    symmetric: bool = True,
) -> torch.Tensor:
    """InfoNCE over the batch: the translation against every other sentence of its side.

    van den Oord et al. 2019; with a margin it is LaBSE's additive margin softmax (Feng et al. 2022).

    Args:
        source, target: [B, dim]; row i of both are translations.
        temperature: Cosines are divided by it.
        repeated: bool [B, B], pairs that are not each other's negatives.
        margin: Taken from the cosine of each translation.
        symmetric: The mean of both directions, else source to target alone.
    """
    with torch.autocast(source.device.type, enabled=False):
        source = functional.normalize(source.float(), dim=-1)
        target = functional.normalize(target.float(), dim=-1)
        cosines = source @ target.T
        if margin:
            cosines = cosines - margin * torch.eye(len(cosines), device=cosines.device)
        logits = (cosines / temperature).masked_fill(repeated, -torch.inf)
        labels = torch.arange(len(logits), device=logits.device)
        forward = functional.cross_entropy(logits, labels)
        if not symmetric:
            return forward
        return (forward + functional.cross_entropy(logits.T, labels)) / 2


def unmasking(
    hidden: torch.Tensor, vocabulary: torch.Tensor, bias: torch.Tensor, labels: torch.Tensor
) -> torch.Tensor:
    """Mean cross-entropy over the masked tokens of all processes (paper section 3); 0 where there are none.

    Logits are made for a few rows at a time and their gradients with them, so that M x V numbers never
    exist at once: at 32,000 tokens that is most of the memory and half of the time of a step on a CPU.

    Args:
        hidden: [M, dim] at masked positions only.
        vocabulary: [V, dim], the word embeddings.
        bias: [V].
        labels: int64 [M], the tokens that stood there.
    """
    dtype = hidden.dtype
    if torch.is_autocast_enabled(hidden.device.type):
        dtype = torch.get_autocast_dtype(hidden.device.type)
    total: torch.Tensor = _ChunkedCrossEntropy.apply(hidden, vocabulary, bias, labels, dtype)  # type: ignore[no-untyped-call]
    return global_mean(total, len(labels))


class _ChunkedCrossEntropy(torch.autograd.Function):
    """Linear layer and summed cross-entropy in one, gradients computed on the way forward."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: torch.Tensor,
        vocabulary: torch.Tensor,
        bias: torch.Tensor,
        labels: torch.Tensor,
        dtype: torch.dtype,
    ) -> torch.Tensor:
        weight, rows = vocabulary.to(dtype), hidden.to(dtype)
        wants_hidden, wants_weight = hidden.requires_grad, vocabulary.requires_grad
        hidden_grad = torch.empty_like(hidden) if wants_hidden else None
        weight_grad = torch.zeros_like(vocabulary) if wants_weight else None
        bias_grad = torch.zeros_like(bias)
        total = torch.zeros((), dtype=torch.float32, device=hidden.device)
        for start in range(0, len(labels), CHUNK_ROWS):
            chunk, wanted = rows[start : start + CHUNK_ROWS], labels[start : start + CHUNK_ROWS, None]
            logits = (chunk @ weight.T).float().add_(bias.float())
            logits.sub_(logits.amax(dim=1, keepdim=True))
            target = logits.gather(1, wanted)
            # The gradient of a row is softmax minus one-hot; it takes the logits' place.
            slope = logits.exp_()
            norm = slope.sum(dim=1, keepdim=True)
            total += (norm.log() - target).sum()
            slope.div_(norm).scatter_add_(1, wanted, torch.full_like(norm, -1.0))
            bias_grad += slope.sum(dim=0)
            low = slope.to(dtype)
            if hidden_grad is not None:
                hidden_grad[start : start + CHUNK_ROWS] = low @ weight
            if weight_grad is not None:
                weight_grad += low.T @ chunk
        ctx.save_for_backward(hidden_grad, weight_grad, bias_grad)
        return total

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        scaled = (None if saved is None else saved * grads[0] for saved in ctx.saved_tensors)
        return (*scaled, None, None)
