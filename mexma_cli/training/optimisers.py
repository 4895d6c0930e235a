"""AdamW for an objective, its learning rate over a run, and the rates of its groups of parameters."""

from __future__ import annotations

import math

import torch

from mexma_cli.objectives.base import Objective
from mexma_cli.recipe import TrainerSettings

START = 0.1
"""The warm-up begins at this share of the rate (authors' code: LinearLR from 0.1)."""


def freeze(objective: Objective, settings: TrainerSettings) -> None:
    """Take the gradients from groups whose rate is 0."""
    for name, parameters in objective.groups().items():
        for parameter in parameters:
            parameter.requires_grad_(parameter.requires_grad and _share(name, settings) > 0)


def adamw(objective: Objective, settings: TrainerSettings) -> torch.optim.AdamW:
    """AdamW; only matrices decay, and the word embeddings have their own share of the rate."""
    chosen = []
    for name, parameters in objective.groups().items():
        for decays in (True, False):
            members = [p for p in parameters if p.requires_grad and (p.dim() >= 2) == decays]
            if members:
                decay = settings.weight_decay if decays else 0.0
                chosen.append({"params": members, "share": _share(name, settings), "weight_decay": decay})
    return torch.optim.AdamW(
        chosen, lr=settings.learning_rate, betas=settings.betas, eps=settings.eps, fused=True
    )


def _share(group: str, settings: TrainerSettings) -> float:
    return settings.embedding_rate if group == "embeddings" else 1.0


def rate(step: int, settings: TrainerSettings) -> float:
    """The learning rate of an optimiser step, from 0.

    The paper (section 7.5) says that the rate rises linearly from 1e-5 for all 300k steps; the authors'
    code rises from a tenth over 30% of a much longer plan and then falls as a cosine. Both are
    `warmup` settings: 1.0 is the paper's words, 0.3 the code's default.
    """
    return settings.learning_rate * _rise_and_fall(step, settings)


def _rise_and_fall(step: int, settings: TrainerSettings) -> float:
    rising = settings.warmup * settings.steps
    if step < rising:
        return START + (1 - START) * step / rising
    progress = (step - rising) / max(1.0, settings.steps - rising)
    if settings.schedule == "cosine":
        return 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))
    return max(0.0, 1 - progress) if settings.schedule == "linear" else 1.0


def set_rates(optimiser: torch.optim.AdamW, step: int, settings: TrainerSettings) -> None:
    """Give every group its rate for a step."""
    for group in optimiser.param_groups:
        group["lr"] = rate(step, settings) * group["share"]
