"""The learning rate over a run."""

from __future__ import annotations

import math
from typing import Literal

START = 0.1
"""The warm-up begins at this share of the rate (authors' code: LinearLR from 0.1)."""


def rate_factor(
    step: int, steps: int, warmup: float, schedule: Literal["cosine", "linear", "constant"]
) -> float:
    """Share of the learning rate at an optimiser step.

    The paper (section 7.5) says that the rate rises linearly from 1e-5 for all 300k steps; the authors'
    code rises from a tenth over 30% of a much longer plan and then falls as a cosine. Both are
    `warmup` settings: 1.0 is the paper's words, 0.3 the code's default.

    Args:
        step: From 0.
        steps: Of the whole run.
        warmup: Share of the steps; above 1 the run ends while the rate still rises.
    """
    rising = warmup * steps
    if step < rising:
        return START + (1 - START) * step / rising
    progress = (step - rising) / max(1.0, steps - rising)
    if schedule == "cosine":
        return 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))
    return max(0.0, 1 - progress) if schedule == "linear" else 1.0
