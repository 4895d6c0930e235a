"""AdamW for an objective, and the rates of its groups of parameters."""

from __future__ import annotations

import torch

from mexma_cli.objectives.base import Objective
from mexma_cli.recipe import TrainerSettings
from mexma_cli.training.schedule import rate


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


def set_rates(optimiser: torch.optim.AdamW, step: int, settings: TrainerSettings) -> None:
    """Give every group its rate for a step."""
    for group in optimiser.param_groups:
        group["lr"] = rate(step, settings) * group["share"]
