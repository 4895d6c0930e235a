"""The compiled loops of searches."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from mexma_cli.knn import exact_search, kernels
from mexma_cli.knn.exact import knn
from mexma_cli.knn.products import Float32
from mexma_cli.knn.sides import dots
from mexma_cli.knn.torch_products import BFloat16
from tests.knn.searching import KINDS, with_product


def test_dots_are_dot_products_whatever_the_slices(two_threads):
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((300, 64), np.float32), rng.standard_normal((200, 64), np.float32)
    rows, columns = rng.integers(0, 300, 70_000), rng.integers(0, 200, 70_000)
    found = dots(x, y, rows, columns)
    exact = (x.astype(np.float64) @ y.T.astype(np.float64))[rows, columns]
    assert found.dtype == np.float32
    assert np.abs(found - exact).max() < 1e-4
    piecewise = np.concatenate([dots(x, y, rows[i : i + 7], columns[i : i + 7]) for i in range(0, 700, 7)])
    assert (piecewise == found[:700]).all()


def test_all_searches_use_the_same_loops(monkeypatch: pytest.MonkeyPatch, two_threads: None) -> None:
    """A second one compiles nothing, in whatever product and however it is cut."""
    rng = np.random.default_rng(1)
    loops = kernels.offer, kernels._dots, kernels._near
    compiled = []
    monkeypatch.setattr(exact_search, "X_TILE", 600)
    monkeypatch.setattr(exact_search, "Y_TILE", 700)
    for kind, rows in itertools.product((Float32, BFloat16, *KINDS.values()), (1300, 1)):
        with_product(monkeypatch, kind)
        knn(rng.standard_normal((rows, 16)), rng.standard_normal((1500, 16)), 4)
        compiled.append([len(loop.signatures) for loop in loops])
    assert compiled[2:] == compiled[2:3] * len(compiled[2:])  # the first two are of float32
