"""Which arithmetic a search takes, and that its products are what they are held for."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from mexma_cli.knn import arithmetic
from mexma_cli.knn.arithmetic import BFLOAT16, FLOAT32, INT8, Arithmetic, choose_arithmetic
from mexma_cli.knn.blocks import Sample
from mexma_cli.knn.sides import Side


def as_float(array: np.ndarray) -> np.ndarray:
    if array.dtype == np.uint16:
        return (array.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return array.astype(np.float64)


@pytest.mark.parametrize("kind", [FLOAT32, BFLOAT16, INT8])
@pytest.mark.parametrize("dim", [1, 3, 33, 100, 1024])
def test_a_product_is_no_further_off_than_its_spread(kind: Arithmetic, dim: int) -> None:
    rng = np.random.default_rng(0)
    x, y = kind.empty(70, dim), kind.empty(50, dim)
    for side in (x, y):
        numbers = rng.integers(-127, 128, side.shape)
        if kind is BFLOAT16:
            side[:] = numbers.astype(np.float32).view(np.uint32) >> 16
        else:
            side[:] = numbers
    steps = rng.random(50, dtype=np.float32) if kind is INT8 else np.ones(50, dtype=np.float32)
    found = as_float(kind.product(y, steps, 64)(x, kind.buffer(70 * 50)))
    exact = as_float(x) @ as_float(y).T * steps
    assert (
        np.abs(found - exact) <= np.abs(exact) * (kind.spread + 2.0**-22) + dim * 1e-3 * (kind is FLOAT32)
    ).all()


def seconds(monkeypatch: pytest.MonkeyPatch, taken: dict[Arithmetic, float]) -> None:
    monkeypatch.setattr(arithmetic, "_seconds", lambda kind, dim, fastest: taken[kind])


def test_takes_the_fastest_and_pays_for_wide_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds(monkeypatch, {FLOAT32: 4e-2, BFLOAT16: 2e-2, INT8: 1e-2})
    work = 1 << 42
    assert choose_arithmetic(work, 1024, narrow_is_dear) == INT8
    assert (
        choose_arithmetic(work, 1024, lambda kind: 1e10 if kind == INT8 else narrow_is_dear(kind)) == BFLOAT16
    )
    assert choose_arithmetic(1 << 20, 1024, lambda kind: 0.0) == FLOAT32


def test_pairs_are_not_counted_where_products_alone_take_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor for fewer directions than too few, so that a short search does not wait for its choice."""
    seconds(monkeypatch, {FLOAT32: 4e-2, BFLOAT16: 2e-2, INT8: 1e-2})
    counted = []

    def pairs(kind: Arithmetic) -> float:
        counted.append(kind)
        return narrow_is_dear(kind)

    assert choose_arithmetic(1 << 42, 1024, pairs) == INT8
    assert counted[:2] == [INT8, replace(INT8, width=768)] and len(counted) < 6


def test_takes_the_directions_that_pay(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds(monkeypatch, {FLOAT32: 4e-3, BFLOAT16: 2e-3, INT8: np.inf})
    falls = Side(rows_of(3000, 1.0), None)
    for side, wanted in ((falls, True), (Side(rows_of(3000, 0.0), None), False)):
        sample = Sample(side, side)
        chosen = choose_arithmetic(1 << 42, 320, partial(sample.pairs, (10**5, 10**5), 4))
        assert chosen.dtype == torch.bfloat16
        assert (chosen.width is not None) == wanted
    assert choose_arithmetic(1 << 32, 320, partial(sample.pairs, (3000, 3000), 4)).width is None


def rows_of(rows: int, falls: float) -> np.ndarray:
    """Made-up vectors whose variances fall so from direction to direction."""
    spectrum = np.arange(1, 321, dtype=np.float32) ** -falls
    return np.random.default_rng(0).standard_normal((rows, 320), dtype=np.float32) * spectrum


def narrow_is_dear(kind: Arithmetic) -> float:
    return 1e12 if kind.width else 0.0


def test_an_int8_product_that_is_not_there_or_is_wrong_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(*arguments: object) -> None:
        raise AttributeError("no such operation")

    for kind in (FLOAT32, BFLOAT16):
        assert np.isfinite(arithmetic._seconds(kind, 64, np.inf))
    product = arithmetic._int8_product
    monkeypatch.setattr(arithmetic, "_int8_product", absent)
    assert arithmetic._seconds(INT8, 64, np.inf) == np.inf
    monkeypatch.setattr(
        arithmetic, "_int8_product", lambda *given: lambda left: product(*given)(left).clamp(-32768, 32767)
    )
    assert arithmetic._seconds(INT8, 64, np.inf) == np.inf  # as where sums of 16 bits are full
    assert choose_arithmetic(1 << 42, 64, narrow_is_dear) != INT8


def test_an_arithmetic_that_is_far_slower_is_not_timed_in_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """oneDNN's int8 product took three seconds each time on a processor without AMX."""
    product, rows, clock = arithmetic._int8_product, [], [0.0]
    monkeypatch.setattr(arithmetic.time, "perf_counter", lambda: clock[0])

    def slow(*given: Any) -> Any:
        def multiply(left: torch.Tensor) -> torch.Tensor:
            rows.append(len(left))
            clock[0] += 0.002 * len(left)
            return product(*given)(left)

        return multiply

    monkeypatch.setattr(arithmetic, "_int8_product", slow)
    assert arithmetic._seconds(INT8, 64, 0.01) == np.inf
    assert set(rows) == {16}
    assert choose_arithmetic(1 << 42, 64, narrow_is_dear) != INT8
    assert set(rows) == {16}


def test_more_pairs_are_expected_where_bounds_are_wide_against_cosines() -> None:
    rng = np.random.default_rng(0)
    x, y = (Side(rng.standard_normal((2000, 512), dtype=np.float32), None) for _ in range(2))
    expected = [Sample(x, y).pairs((10**6, 10**6), 16, kind) for kind in (FLOAT32, BFLOAT16, INT8)]
    assert expected[0] < expected[1] < expected[2]
    near_x, near_y = (Side(side.raw(0, 2000) * (np.arange(512) < 8), None) for side in (x, y))
    assert Sample(near_x, near_y).pairs((10**6, 10**6), 16, INT8) < expected[2]
    assert Sample(x, y).pairs((0, 5), 16, INT8) == 0
