"""Which product a search takes."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np
import pytest
import torch

from mexma_cli.errors import MexmaError
from mexma_cli.knn import choice, device
from mexma_cli.knn.approximate import ann
from mexma_cli.knn.choice import choose, pairs_needed
from mexma_cli.knn.device import OnDevice
from mexma_cli.knn.exact import knn
from mexma_cli.knn.products import Float32
from mexma_cli.knn.sides import Side
from mexma_cli.knn.torch_products import BFloat16, Int8, TorchFloat32
from mexma_cli.numerics.precisions import computing_on
from mexma_cli.settings.stages import SearchSettings

MANY, FEW = (1 << 20, 1 << 20), (300, 400)


def sides(dim: int = 16) -> tuple[Side, Side]:
    rng = np.random.default_rng(0)
    x, y = (Side(rng.standard_normal((1000, dim), dtype=np.float32), None) for _ in range(2))
    return x, y


def test_takes_the_fastest_and_pays_for_wide_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "times", lambda dim: (4e-2, 5e-2, 2e-2, 1e-2))
    needed = {Int8: 0.0}
    monkeypatch.setattr(choice, "pairs_needed", lambda product, *_: needed.get(type(product), 0.0))
    assert type(choose(sides(), MANY, 4)) is Int8
    needed[Int8] = 1e16
    assert type(choose(sides(), MANY, 4)) is BFloat16
    assert type(choose(sides(), FEW, 4)) is Float32
    monkeypatch.setattr(choice, "times", lambda dim: (4e-2, 3e-2, math.inf, math.inf))
    assert type(choose(sides(), MANY, 4)) is TorchFloat32


def test_small_searches_load_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch is not loaded for them; where it is there already, middling ones take what is fastest."""
    monkeypatch.setattr(choice, "times", lambda dim: (math.inf, math.inf, 1.0, math.inf))
    middling = 30_000, 60_000
    assert type(choose(sides(), middling, 4)) is BFloat16
    monkeypatch.delitem(sys.modules, "torch")
    assert type(choose(sides(), middling, 4)) is Float32


def test_an_int8_product_that_is_not_there_or_is_wrong_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in (Float32, TorchFloat32, BFloat16):
        assert choice._seconds(kind, 64, math.inf) < math.inf
    against = Int8.against

    def absent(*arguments: object) -> None:
        raise AttributeError("no such operation")

    def full(self: Int8, low: torch.Tensor) -> Any:
        limit = 32768 * self.steps[0] * self.steps[1]
        return lambda *given: against(self, low)(*given).clamp(-limit, limit)

    for wrong in (absent, full):  # the latter as where sums of 16 bits are full
        monkeypatch.setattr(Int8, "against", wrong)
        assert choice._seconds(Int8, 64, math.inf) == math.inf


def test_a_product_that_is_far_slower_is_not_timed_in_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """oneDNN's int8 product took three seconds each time on a processor without AMX."""
    rows, clock = [], [0.0]
    monkeypatch.setattr(choice.time, "perf_counter", lambda: clock[0])

    def slow(self: Int8, low: torch.Tensor) -> Any:
        def multiply(left: torch.Tensor, memory: None) -> torch.Tensor:
            rows.append(len(left))
            clock[0] += 0.01 * len(left)
            return (left.float() @ low.T.float() * (self.steps[0] * self.steps[1])).bfloat16()

        return multiply

    monkeypatch.setattr(Int8, "against", slow)
    assert choice._seconds(Int8, 64, 0.01) == math.inf
    assert max(rows) <= 16


def test_more_pairs_are_expected_where_bounds_are_wide_against_cosines() -> None:
    rng = np.random.default_rng(0)
    x, y = (Side(rng.standard_normal((2000, 512), dtype=np.float32), None) for _ in range(2))
    samples = x.sample(), y.sample()
    expected = [
        pairs_needed(kind(samples), samples, (10**6, 10**6), 16) for kind in (Float32, BFloat16, Int8)
    ]
    assert expected[0] < expected[1] < expected[2]
    near = tuple(Side(side.raw(0, 2000) * (np.arange(512) < 8), None).sample() for side in (x, y))
    assert pairs_needed(Int8((near[0], near[1])), (near[0], near[1]), (10**6, 10**6), 16) < expected[2]
    assert pairs_needed(Int8(samples), samples, (0, 5), 16) == 0


def test_a_gpu_is_taken_where_there_is_one_and_enough_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "times", lambda dim: (1.0, math.inf, math.inf, math.inf))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    made: list[str] = []
    monkeypatch.setattr(device, "OnDevice", lambda samples, device: made.append(device))
    choose(sides(), MANY, 4)
    assert made == ["cuda"]
    assert type(choose(sides(), FEW, 4)) is Float32
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    for sizes in (MANY, FEW):
        with computing_on("cuda:1"):
            choose(sides(), sizes, 4)
        with computing_on("cpu"):
            assert type(choose(sides(), sizes, 4)) is Float32
    assert made[1:] == ["cuda:1"] * 2
    monkeypatch.undo()
    assert OnDevice(tuple(side.sample() for side in sides()), "cpu").device.type == "cpu"  # type: ignore[arg-type]


def test_a_device_that_is_not_there_is_not_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor for few rows."""
    vectors = np.eye(4, dtype=np.float32)
    with computing_on("banana"), pytest.raises(MexmaError, match="unknown device 'banana'"):
        knn(vectors, vectors, 1)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    for search in (
        lambda: knn(vectors, vectors, 1),
        lambda: ann(vectors, vectors, 1, SearchSettings(index="Flat")),
    ):
        with computing_on("cuda:2"), pytest.raises(MexmaError, match="no device 'cuda:2' on this machine"):
            search()
