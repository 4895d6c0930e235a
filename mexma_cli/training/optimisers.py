"""AdamW for an objective, and the rates of its groups of parameters."""

from __future__ import annotations

import torch

from mexma_cli.objectives.base import Objective
from mexma_cli.recipe import Trainer as Settings
from mexma_cli.training.schedule import rate_factor


def freeze(objective: Objective, settings: Settings) -> None:
    """Take the gradients from groups whose rate is 0."""
    for name, parameters in objective.groups().items():
        for parameter in parameters:
            parameter.requires_grad_(parameter.requires_grad and _share(name, settings) > 0)


def adamw(objective: Objective, settings: Settings) -> torch.optim.AdamW:
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


def _share(group: str, settings: Settings) -> float:
    return settings.embedding_rate if group == "embeddings" else 1.0


def rate(step: int, settings: Settings) -> float:
    """The learning rate of a step, from 0."""
    return settings.learning_rate * rate_factor(step, settings.steps, settings.warmup, settings.schedule)


def set_rates(optimiser: torch.optim.AdamW, step: int, settings: Settings) -> None:
    """Give every group its rate for a step."""
    for group in optimiser.param_groups:
        group["lr"] = rate(step, settings) * group["share"]
