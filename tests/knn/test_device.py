"""The code for a GPU, run on the processor; that neighbours are the same is in test_neighbours.py."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mexma_cli.errors import MexmaError
from mexma_cli.knn import arithmetic
from mexma_cli.knn.approximate import ann
from mexma_cli.knn.arithmetic import BFLOAT16, FLOAT32, choose_arithmetic
from mexma_cli.knn.blocks import Block, Frame, block
from mexma_cli.knn.device import Device, _cuts
from mexma_cli.knn.exact import knn
from mexma_cli.knn.sides import Side
from mexma_cli.numerics.precisions import computing_on
from mexma_cli.settings.knn import SearchSettings
from tests.knn.searching import DEVICE


def sides(rows: int, columns: int, seed: int) -> tuple[Block, Block]:
    rng = np.random.default_rng(seed)
    vectors = (rng.standard_normal((size, 24)).astype(np.float32) + 1 for size in (rows, columns))
    left, right = (Side(side, None) for side in vectors)
    centres = left.centre(), right.centre()
    y = block(right.units(0, columns), Frame(DEVICE, *centres[::-1]))
    y.bias[:] -= centres[0] @ centres[1]
    return block(left.units(0, rows), Frame(DEVICE, *centres)), y


@pytest.mark.parametrize("height", [2048, 300, 7])
def test_every_pair_that_reaches_a_bound_comes_back_and_few_others(height: int) -> None:
    x, y = sides(700, 900, 0)
    device = Device(DEVICE)
    device.height = height
    cosines = x.unit @ y.unit.T
    rows, columns = np.quantile(cosines, 0.98, axis=1), np.quantile(cosines, 0.99, axis=0)
    wanted = (cosines >= rows[:, None]) | (cosines >= columns)
    slack = x.slack(y)
    bounds = rows.astype(np.float32), columns.astype(np.float32) - y.bias
    back = list(device.near(x, device.put(y), slack, *bounds, 2000))
    assert max(found.pairs.shape[1] for found in back) <= 2000
    pairs = np.concatenate([found.pairs for found in back], axis=1)
    assert (np.diff(pairs[0]) >= 0).all() and len(np.unique(pairs, axis=1).T) == pairs.shape[1]
    came = np.zeros_like(wanted)
    came[pairs[0], pairs[1]] = True
    assert not (wanted & ~came).any() and came.sum() < 1.3 * wanted.sum()
    estimates = np.concatenate([found.estimates for found in back])
    exact = cosines[pairs[0], pairs[1]] - x.bias[pairs[0]] - y.bias[pairs[1]]
    error = np.abs(estimates) * DEVICE.spread + x.length[pairs[0]] * y.error[pairs[1]] + slack[pairs[0]]
    assert (np.abs(estimates - exact) <= error).all()


def test_floors_are_reached_by_the_k_th_best() -> None:
    x, y = sides(600, 900, 1)
    device = Device(DEVICE)
    rows, columns = device.floors(x, device.put(y), x.slack(y), (4, 9))
    cosines = np.sort(x.unit @ y.unit.T, axis=1)
    assert (rows <= cosines[:, -4]).all() and (rows > cosines[:, -40]).mean() > 0.9
    cosines = np.sort(x.unit @ y.unit.T, axis=0)
    assert (columns <= cosines[-9]).all() and (columns > cosines[-90]).mean() > 0.9
    short = device.floors(x.part(0, 30), device.put(y.part(0, 30)), x.slack(y)[:30], (4, 4))
    assert np.isneginf(short[0]).all() and np.isneginf(short[1]).all()


@given(st.lists(st.integers(0, 50), min_size=1), st.integers(50, 200))
def test_cuts_are_all_rows_with_pairs(counts: list[int], most: int) -> None:
    covered = np.zeros(len(counts), bool)
    for first, last in _cuts(np.array(counts), most):
        assert 0 < sum(counts[first:last]) <= most and not covered[first:last].any()
        covered[first:last] = True
    assert not np.array(counts)[~covered].any()


def test_a_gpu_is_taken_where_there_is_one_and_enough_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert choose_arithmetic(1 << 42, 1024, lambda kind: 0.0) == replace(BFLOAT16, device="cuda")
    assert choose_arithmetic(1 << 20, 1024, lambda kind: 0.0) == FLOAT32
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(arithmetic, "_seconds", lambda kind, dim, fastest: 1.0)
    assert choose_arithmetic(1 << 42, 1024, lambda kind: 0.0).device is None


def test_a_search_runs_where_it_is_told_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(arithmetic, "_seconds", lambda kind, dim, fastest: 1.0)
    for work in (1 << 42, 1 << 20):
        with computing_on("cuda:1"):
            assert choose_arithmetic(work, 1024, lambda kind: 0.0) == replace(BFLOAT16, device="cuda:1")
        with computing_on("cpu"):
            assert choose_arithmetic(work, 1024, lambda kind: 0.0).device is None
    x = np.eye(3, dtype=np.float32)
    for search in (lambda: knn(x, x, 1), lambda: ann(x, x, 1, SearchSettings(index="Flat"))):
        with computing_on("cuda:2"), pytest.raises(MexmaError, match="no device 'cuda:2' on this machine"):
            search()


def test_a_full_device_is_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = sides(20, 30, 2)
    device = Device(DEVICE)
    there = device.put(y)

    def full(*_: object) -> None:
        raise torch.OutOfMemoryError

    monkeypatch.setattr(torch, "matmul", full)
    with pytest.raises(MexmaError, match="memory of the GPU is full") as caught:
        device.floors(x, there, x.slack(y), (4, 4))
    assert "--device cpu" in str(caught.value.hint)
