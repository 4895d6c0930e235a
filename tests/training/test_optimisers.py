"""The learning rate at the places that matter, and the steps of tables whose gradients are sparse."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from mexma_cli.settings.training import TrainerSettings
from mexma_cli.training.optimisers import DECAYED, RowAdam, rate


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


def table_after(steps: int, sparse: bool, width: int = 1) -> tuple[torch.Tensor, RowAdam]:
    """A table that a few rows of which have a gradient in each step, and its optimiser."""
    generator = torch.Generator().manual_seed(3)
    table = torch.nn.Parameter(torch.ones(6, width))
    optimiser = RowAdam([{"params": [table], "lr": 0.1, "weight_decay": 0.5}], beta=0.9, eps=1e-8)
    for _ in range(steps):
        rows = torch.randperm(6, generator=generator)[:2].sort().values
        slopes = torch.randn(2, width, generator=generator)
        grad = torch.sparse_coo_tensor(rows[None], slopes, table.shape, check_invariants=True)
        table.grad = grad if sparse else grad.to_dense()
        optimiser.step()
    return table.detach(), optimiser


@pytest.mark.parametrize("steps", [1, DECAYED - 1, 3 * DECAYED])
def test_sparse_gradients_are_dense_ones_with_zeros(steps: int) -> None:
    """Of which a row without a gradient changes as little."""
    sparse, dense = table_after(steps, sparse=True, width=5)[0], table_after(steps, sparse=False, width=5)[0]
    torch.testing.assert_close(sparse, dense)


def test_rows_of_one_number_take_the_steps_of_adamw() -> None:
    """Up to the length of all rows, which decays later."""
    table, rows = table_after(3 * DECAYED, sparse=True)
    generator = torch.Generator().manual_seed(3)
    expected = torch.nn.Parameter(torch.ones(6, 1))
    adamw = torch.optim.AdamW([expected], lr=0.1, weight_decay=0.0, betas=(0.0, 0.9))
    start = expected.detach().clone()
    total = torch.zeros(6, 1)
    for step in range(3 * DECAYED):
        chosen = torch.randperm(6, generator=generator)[:2].sort().values
        slopes = torch.randn(2, 1, generator=generator)
        expected.grad = torch.zeros(6, 1).index_copy(0, chosen, slopes)
        before = expected.detach().clone()
        adamw.step()
        left = 3 * DECAYED // DECAYED - step // DECAYED
        total += (expected.detach() - before) * 0.95 ** (left * DECAYED)
    torch.testing.assert_close(table, start * 0.95 ** (3 * DECAYED) + total)
    assert rows.state_dict()["state"][0]["kept"] == 1.0
