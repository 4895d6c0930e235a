"""Adam for an objective, its learning rate over a run, and the rates of its groups of parameters."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from mexma_cli.numerics.compiling import summing
from mexma_cli.numerics.threads import in_slices
from mexma_cli.objectives.base import Objective
from mexma_cli.settings.training import TrainerSettings

DECAYED = 16
"""Steps between two decays of the rows of tables."""
_ADAM, _ROWS = {"step", "exp_avg", "exp_avg_sq"}, {"steps", "kept", "aged", "squares"}
"""Names of the values that torch's Adam and `RowAdam` keep for each parameter."""
START = 0.1
"""The warm-up begins at this share of the rate (authors' code: LinearLR from 0.1)."""


def freeze(objective: Objective, settings: TrainerSettings) -> None:
    """Take the gradients from groups whose rate is 0."""
    for name, parameters in objective.groups().items():
        for parameter in parameters:
            parameter.requires_grad_(parameter.requires_grad and _share(name, settings) > 0)


class RowAdam(torch.optim.Optimizer):
    """AdamW for tables whose gradients are sparse: with one second moment a row, and without momentum.

    Momentum would push a row on in steps that have no gradient for it. What changes all rows in each step,
    the decay of weights and of second moments, is made up for every `DECAYED` steps: until then the weights
    of all rows are too long by one factor.

    Args:
        groups: With `params`, `lr` and `weight_decay`.
    """

    def __init__(self, groups: list[dict[str, Any]], beta: float, eps: float) -> None:
        super().__init__(groups, {"lr": 0.0})
        self.beta, self.eps = beta, eps

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # pyrefly: ignore[bad-override]
        """One step for all tables that have a gradient, sparse or dense."""
        for group in self.param_groups:
            for table in group["params"]:
                if table.grad is not None:
                    self._update(table, table.grad, group["lr"], group["weight_decay"])

    def _update(self, table: torch.Tensor, grad: torch.Tensor, lr: float, weight_decay: float) -> None:
        state = self.state[table]
        if not state:
            state |= {"steps": 0, "kept": 1.0, "aged": 1.0, "squares": torch.zeros_like(table[:, :1])}
        state["steps"] += 1
        state["kept"] *= 1 - lr * weight_decay
        state["aged"] *= self.beta  # what the squares, too, are to be multiplied by
        weight = (1 - self.beta) / state["aged"]
        unbiased = state["aged"] / (1 - self.beta ** state["steps"])
        if grad.is_sparse:
            grad = grad.coalesce()
            given = [part.numpy() for part in (table, state["squares"], grad.indices()[0], grad.values())]
            rates = np.array([lr, weight, unbiased, self.eps], np.float32)
            in_slices(len(given[2]), lambda first, stop: _step(first, stop, *given, rates), 2 * given[3].size)
        else:
            state["squares"] += weight * grad.square().mean(dim=1, keepdim=True)
            table -= lr * grad / ((state["squares"] * unbiased).sqrt() + self.eps)
        if state["steps"] % DECAYED == 0:
            table *= state["kept"]
            state["squares"] *= state["aged"]
            state["kept"] = state["aged"] = 1.0


@summing
def _step(
    first: int,
    stop: int,
    table: np.ndarray,
    squares: np.ndarray,
    rows: np.ndarray,
    grad: np.ndarray,
    rates: np.ndarray,
) -> None:
    lr, weight, unbiased, eps = rates
    for place in range(first, stop):
        slopes, row = grad[place], table[rows[place]]
        total = np.float32(0)
        for number in range(len(slopes)):
            total += slopes[number] * slopes[number]
        square = squares[rows[place], 0] + weight * total / len(slopes)
        squares[rows[place], 0] = square
        size = lr / (math.sqrt(square * unbiased) + eps)
        for number in range(len(slopes)):
            row[number] -= size * slopes[number]


def check_state(optimiser: torch.optim.Optimizer, saved: dict[str, Any]) -> None:
    """Raise a ValueError for a state dict that is not of this optimiser, since it lacks something, has more,
    or a tensor has another shape than its parameter: compiled loops trust its shapes."""
    parameters = [p for group in optimiser.param_groups for p in group["params"]]
    wanted = _ROWS if isinstance(optimiser, RowAdam) else _ADAM
    for index, entry in saved["state"].items():
        parameter = parameters[index]
        if set(entry) != wanted:
            raise ValueError(f"it keeps {', '.join(map(str, entry))} of parameter {index}")
        shapes = dict.fromkeys(("exp_avg", "exp_avg_sq"), parameter.shape)
        shapes["squares"] = torch.Size([*parameter.shape[:1], 1])
        for name, value in entry.items():
            if (shape := torch.as_tensor(value).shape) != shapes.get(name, torch.Size()):
                raise ValueError(f"{name} of parameter {index} has the shape {list(shape)}")


def adamw(objective: Objective, settings: TrainerSettings) -> torch.optim.Optimizer:
    """AdamW; only matrices decay, and the word embeddings have their own share of the rate."""
    chosen = []
    groups = objective.groups()
    if "rows" in groups:
        decaying = {"params": groups["rows"], "share": 1.0, "weight_decay": settings.weight_decay}
        return RowAdam([decaying], settings.betas[1], settings.eps)
    for name, parameters in groups.items():
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
    most, rising = settings.learning_rate, settings.warmup * settings.steps
    if step < rising:
        return most * (START + (1 - START) * step / rising)
    progress = (step - rising) / max(1.0, settings.steps - rising)
    if settings.schedule == "cosine":
        return most * (0.5 * (1 + math.cos(math.pi * min(1.0, progress))))
    return most * (max(0.0, 1 - progress) if settings.schedule == "linear" else 1.0)


def set_rates(optimiser: torch.optim.Optimizer, step: int, settings: TrainerSettings) -> None:
    """Give every group its rate for a step."""
    for group in optimiser.param_groups:
        group["lr"] = rate(step, settings) * group["share"]
