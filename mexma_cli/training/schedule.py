"""The learning rate over a run."""

from __future__ import annotations

import math

from mexma_cli.recipe import TrainerSettings

START = 0.1
"""The warm-up begins at this share of the rate (authors' code: LinearLR from 0.1)."""


def rate(step: int, settings: TrainerSettings) -> float:
    """The learning rate of an optimiser step, from 0.

    The paper (section 7.5) says that the rate rises linearly from 1e-5 for all 300k steps; the authors'
    code rises from a tenth over 30% of a much longer plan and then falls as a cosine. Both are
    `warmup` settings: 1.0 is the paper's words, 0.3 the code's default.
    """
    return settings.learning_rate * _share(step, settings)


def _share(step: int, settings: TrainerSettings) -> float:
    rising = settings.warmup * settings.steps
    if step < rising:
        return START + (1 - START) * step / rising
    progress = (step - rising) / max(1.0, settings.steps - rising)
    if settings.schedule == "cosine":
        return 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))
    return max(0.0, 1 - progress) if settings.schedule == "linear" else 1.0
