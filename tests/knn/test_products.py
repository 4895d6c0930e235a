"""Estimates are no further off than their bounds say, on whatever vectors; wrong ones are noticed."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from mexma_cli.errors import MexmaError
from mexma_cli.knn import device, exact_search
from mexma_cli.knn.cosines import TileLimits
from mexma_cli.knn.device import OnDevice
from mexma_cli.knn.exact import knn
from mexma_cli.knn.products import Block, Float32, Int8
from mexma_cli.knn.sides import SearchSide
from mexma_cli.knn.torch_products import BFloat16
from mexma_cli.numerics.lanes import quads
from tests.knn.searching import KINDS, crowded, same, watch, with_product


def nasty(kind: str, rows: int, dim: int, seed: int) -> np.ndarray:
    """Vectors that int8 is bad at."""
    rng = np.random.default_rng(seed)
    vectors = rng.standard_normal((rows, dim)).astype(np.float32)
    if kind == "outlier dimensions":
        vectors[:, :2] *= 100
    elif kind == "one row much larger":
        vectors[rows // 2] *= 1e6
    elif kind == "one row of one number":
        vectors[rows // 3] = 0
        vectors[rows // 3, -1] = 1
    elif kind == "all equal":
        vectors[:] = vectors[0]
    elif kind == "constants":
        vectors[:] = vectors[:, :1]
    elif kind == "zeros and duplicates":
        vectors[::3] = 0
        vectors[1::3] = vectors[1]
    elif kind == "crowded":
        vectors = crowded(rows, dim, seed)
    return vectors


needs_quads = pytest.mark.skipif(quads() is None, reason="this processor multiplies no int8")

NASTY = [
    "outlier dimensions",
    "one row much larger",
    "one row of one number",
    "all equal",
    "constants",
    "zeros and duplicates",
    "crowded",
]


@pytest.mark.parametrize("kind", NASTY)
@pytest.mark.parametrize("dim", [1, 3, 31, 33, 100, 1024])
@pytest.mark.parametrize("product", KINDS)
def test_an_estimate_is_no_further_off_than_its_bound(kind: str, dim: int, product: str) -> None:
    left, right = SearchSide(nasty(kind, 70, dim, 0), None), SearchSide(nasty(kind, 50, dim, 1), None)
    made = KINDS[product]((left.sample(), right.sample()))
    x, y = left.unit_vectors(0, 70), right.unit_vectors(0, 50)
    low, other = (made.block(made.put(rows), side) for side, rows in enumerate((x, y)))
    found = made.here(made.against(other.low)(low.low, made.memory(70, 50)))
    low, other = (Block(block.low, *map(np.asarray, block[1:])) for block in (low, other))
    error = np.abs(found + low.bias[:, None] + other.bias - x.astype(np.float64) @ y.T.astype(np.float64))
    slack = (low.error * other.reach + low.loose)[:, None] + other.error * low.reach + other.loose
    assert (error <= np.abs(found) * made.relative_error + slack).all()


@pytest.mark.parametrize("kind", NASTY)
@pytest.mark.parametrize("product", [kind for kind in KINDS if kind in ("bfloat16", "int8", "device")])
def test_misses_nothing_on_nasty_vectors(monkeypatch: pytest.MonkeyPatch, kind: str, product: str) -> None:
    x, y = nasty(kind, 300, 33, 0), nasty(kind, 270, 33, 1)
    wanted = {k: knn(x, y, k) for k in (4, 280)}
    with_product(monkeypatch, KINDS[product])
    monkeypatch.setattr(exact_search, "Y_TILE", 256)
    monkeypatch.setattr(exact_search, "_GROUPS", 16)
    seen = watch(monkeypatch)
    for k, neighbours in wanted.items():
        assert same(knn(x, y, k), neighbours)
    assert len(seen) == 2  # no bound broke


@needs_quads
def test_a_single_odd_row_does_not_make_all_others_dear(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = nasty("plain", 200, 100, 0), nasty("plain", 200, 100, 1)
    with_product(monkeypatch, Int8)
    seen = watch(monkeypatch)
    knn(x, y, 4)
    x[150] = y[150] = np.eye(100)[3]
    knn(x, y, 4)
    plain, odd = (each.computed for each in seen)
    assert odd < plain + 3 * 400  # its own row and column, at most


@pytest.mark.parametrize("kind", [BFloat16, partial(OnDevice, device="cpu", larger=(1, 1))])
def test_estimates_that_are_wrong_are_noticed(monkeypatch: pytest.MonkeyPatch, kind: Any) -> None:
    x, y = crowded(500, 32, 7), crowded(400, 32, 8)
    wanted = knn(x, y, 3)
    product = kind.func if isinstance(kind, partial) else kind
    against = product.against

    def sloppy(self: Any, low: torch.Tensor) -> Any:
        return lambda *given: against(self, low)(*given).mul_(1.5)

    with_product(monkeypatch, kind)
    monkeypatch.setattr(product, "against", sloppy)
    seen = watch(monkeypatch)
    assert same(knn(x, y, 3), wanted)
    assert [type(each.product) for each in seen] == [product, Float32]


def test_every_pair_that_reaches_a_bound_comes_back_from_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "_TOGETHER", 50)
    rng = np.random.default_rng(0)
    tile = torch.from_numpy(rng.standard_normal((70, 900))).half()
    limits = [
        TileLimits(
            *(
                torch.from_numpy(part)
                for part in (np.full(size, 2.5, np.float32), rng.random(size, np.float32))
            )
        )
        for size in tile.shape
    ]
    rows, columns = limits
    parts = list(OnDevice((np.empty((0, 2), np.float32),) * 2, "cpu").near(tile, rows, columns))
    assert len(parts) > 3
    found, exact = torch.zeros(tile.shape), tile.float()
    for part in parts:
        found.index_put_((part.rows, part.columns), part.estimates, accumulate=True)  # each pair once
    reached = (exact + columns.above >= rows.need[:, None]) | (exact + rows.above[:, None] >= columns.need)
    assert 0 < reached.sum() < 6000 and (found == exact * reached).all()


def test_a_full_device_is_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise torch.OutOfMemoryError

    with_product(monkeypatch, KINDS["device"])
    monkeypatch.setattr(torch, "matmul", full)
    vectors = crowded(20, 8, 0)
    with pytest.raises(MexmaError, match="memory of the GPU is full") as caught:
        knn(vectors, vectors, 1)
    assert "--device cpu" in str(caught.value.hint)
