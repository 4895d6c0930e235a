"""The learning rate at the places that matter."""

from __future__ import annotations

from typing import Literal

import pytest

from mexma_cli.training.schedule import rate_factor


@pytest.mark.parametrize("schedule", ["cosine", "linear", "constant"])
def test_warm_up_rises_from_a_tenth(schedule: Literal["cosine", "linear", "constant"]) -> None:
    assert rate_factor(0, 1000, 0.3, schedule) == pytest.approx(0.1)
    assert rate_factor(150, 1000, 0.3, schedule) == pytest.approx(0.55)
    assert rate_factor(300, 1000, 0.3, schedule) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("schedule", "middle", "end"), [("cosine", 0.5, 0.0), ("linear", 0.5, 0.0), ("constant", 1.0, 1.0)]
)
def test_after_the_warm_up(
    schedule: Literal["cosine", "linear", "constant"], middle: float, end: float
) -> None:
    assert rate_factor(650, 1000, 0.3, schedule) == pytest.approx(middle)
    assert rate_factor(1000, 1000, 0.3, schedule) == pytest.approx(end, abs=1e-12)
    steps = [rate_factor(step, 1000, 0.3, schedule) for step in range(300, 1001)]
    assert steps == sorted(steps, reverse=True)


def test_without_warm_up_and_with_nothing_else() -> None:
    assert rate_factor(0, 10, 0.0, "cosine") == 1.0
    assert rate_factor(9, 10, 1.0, "cosine") == pytest.approx(0.91)
    assert rate_factor(0, 1, 0.3, "cosine") == pytest.approx(0.1)


def test_a_warm_up_longer_than_the_run() -> None:
    assert rate_factor(0, 1000, 2.0, "cosine") == pytest.approx(0.1)
    assert rate_factor(1000, 1000, 2.0, "cosine") == pytest.approx(0.55)
