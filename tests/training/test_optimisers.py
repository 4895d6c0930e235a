"""The learning rate at the places that matter."""

from __future__ import annotations

from typing import Any

import pytest

from mexma_cli.recipe import TrainerSettings
from mexma_cli.training.optimisers import rate


def rate_of(step: int, steps: int, warmup: float, schedule: Any) -> float:
    return rate(step, TrainerSettings(learning_rate=2.0, steps=steps, warmup=warmup, schedule=schedule)) / 2


@pytest.mark.parametrize(
    ("schedule", "middle", "end"), [("cosine", 0.5, 0.0), ("linear", 0.5, 0.0), ("constant", 1.0, 1.0)]
)
def test_warm_up_rises_from_a_tenth_and_what_comes_after(schedule: str, middle: float, end: float) -> None:
    expected = {0: 0.1, 150: 0.55, 300: 1.0, 650: middle, 1000: end}
    found = {step: rate_of(step, 1000, 0.3, schedule) for step in expected}
    assert found == pytest.approx(expected, abs=1e-12)
    falling = [rate_of(step, 1000, 0.3, schedule) for step in range(300, 1001)]
    assert falling == sorted(falling, reverse=True)


@pytest.mark.parametrize(
    ("step", "steps", "warmup", "expected"),
    [(0, 10, 0.0, 1.0), (9, 10, 1.0, 0.91), (0, 1, 0.3, 0.1), (0, 1000, 2.0, 0.1), (1000, 1000, 2.0, 0.55)],
)
def test_without_warm_up_or_with_nothing_else(step: int, steps: int, warmup: float, expected: float) -> None:
    assert rate_of(step, steps, warmup, "cosine") == pytest.approx(expected)
