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
from mexma_cli.knn.choice import choose_product, pairs_needed, uses_torch
from mexma_cli.knn.device import OnDevice
from mexma_cli.knn.exact import knn
from mexma_cli.knn.products import Float32, Int8
from mexma_cli.knn.sides import SearchSide
from mexma_cli.knn.torch_products import BFloat16, TorchFloat32
from mexma_cli.numerics import lanes
from mexma_cli.numerics.precisions import computing_on
from mexma_cli.settings.stages import SearchSettings

MANY, FEW = (1 << 20, 1 << 20), (300, 400)


def sides(dim: int = 16) -> tuple[SearchSide, SearchSide]:
    rng = np.random.default_rng(0)
    x, y = (SearchSide(rng.standard_normal((1000, dim), dtype=np.float32), None) for _ in range(2))
    return x, y


def taking(monkeypatch: pytest.MonkeyPatch, **seconds: float) -> None:
    """Let this processor have these products alone, which take so long."""
    names = {kind.__name__: kind for kind in (Float32, Int8, TorchFloat32, BFloat16)}
    monkeypatch.setattr(choice, "kinds", lambda: tuple(names[name] for name in seconds))
    monkeypatch.setattr(choice, "times", lambda dim, kinds: tuple(seconds.values()))


def test_takes_the_fastest_and_pays_for_wide_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    taking(monkeypatch, Float32=4e-2, Int8=1e-2, TorchFloat32=5e-2, BFloat16=2e-2)
    needed = {Int8: 0.0}
    monkeypatch.setattr(choice, "pairs_needed", lambda product, *_: needed.get(type(product), 0.0))
    assert type(choose_product(sides(), MANY, 4)) is Int8
    needed[Int8] = 1e16
    assert type(choose_product(sides(), MANY, 4)) is BFloat16
    assert type(choose_product(sides(), FEW, 4)) is Float32
    taking(monkeypatch, Float32=4e-2, TorchFloat32=3e-2, BFloat16=math.inf)
    assert type(choose_product(sides(), MANY, 4)) is TorchFloat32


def test_small_searches_load_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Products of torch are taken where it is loaded, and int8 where the processor can multiply it."""
    monkeypatch.setattr(lanes, "quads", lambda: np.uint32)
    assert choice.kinds() == (Float32, Int8, TorchFloat32, BFloat16)
    monkeypatch.delitem(sys.modules, "torch")
    assert choice.kinds() == (Float32, Int8)
    monkeypatch.setattr(lanes, "quads", lambda: None)
    assert choice.kinds() == (Float32,)
    assert type(choose_product(sides(), (30_000, 60_000), 4)) is Float32
    assert not uses_torch(16 * 30_000 * 60_000) and uses_torch(16 * MANY[0] * MANY[1])


def test_a_product_that_is_wrong_or_far_slower_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some processors emulate bfloat16: the product of a few rows is not followed by that of all."""
    for kind in choice.kinds():
        assert choice._seconds(kind, 64, math.inf) < math.inf
    against, rows, clock = BFloat16.against, [], [0.0]
    monkeypatch.setattr(choice.time, "perf_counter", lambda: clock[0])

    def slow(self: BFloat16, low: torch.Tensor) -> Any:
        def multiply(left: torch.Tensor, memory: torch.Tensor) -> torch.Tensor:
            rows.append(len(left))
            clock[0] += 0.01 * len(left)
            return against(self, low)(left, memory)

        return multiply

    def full(self: BFloat16, low: torch.Tensor) -> Any:
        return lambda *given: against(self, low)(*given).clamp(-0.1, 0.1)

    monkeypatch.setattr(BFloat16, "against", slow)
    assert choice._seconds(BFloat16, 64, 0.01) == math.inf
    assert max(rows) <= 16
    monkeypatch.setattr(BFloat16, "against", full)
    assert choice._seconds(BFloat16, 64, math.inf) == math.inf


def test_more_pairs_are_expected_where_bounds_are_wide_against_cosines() -> None:
    rng = np.random.default_rng(0)
    x, y = (SearchSide(rng.standard_normal((2000, 512), dtype=np.float32), None) for _ in range(2))
    samples = x.sample(), y.sample()
    expected = [
        pairs_needed(kind(samples), samples, (10**6, 10**6), 16) for kind in (Float32, BFloat16, Int8)
    ]
    assert expected[0] < expected[1] < expected[2]
    near = tuple(SearchSide(side.raw(0, 2000) * (np.arange(512) < 8), None).sample() for side in (x, y))
    assert pairs_needed(Int8((near[0], near[1])), (near[0], near[1]), (10**6, 10**6), 16) < expected[2]
    assert pairs_needed(Int8(samples), samples, (0, 5), 16) == 0


def test_a_gpu_is_taken_where_there_is_one_and_enough_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    taking(monkeypatch, Float32=1.0)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    made: list[str] = []
    monkeypatch.setattr(device, "OnDevice", lambda samples, device: made.append(device))
    choose_product(sides(), MANY, 4)
    assert made == ["cuda"]
    assert type(choose_product(sides(), FEW, 4)) is Float32
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    for sizes in (MANY, FEW):
        with computing_on("cuda:1"):
            choose_product(sides(), sizes, 4)
        with computing_on("cpu"):
            assert type(choose_product(sides(), sizes, 4)) is Float32
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
