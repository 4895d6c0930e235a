"""Sums of rows."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from mexma_cli.numerics import bags
from mexma_cli.numerics.quantised import QuantisedRows


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape)


@pytest.mark.parametrize("counts", [[], [0], [3], [0, 2, 0, 0, 1, 5, 0], [1] * 200])
def test_sums_are_those_of_each_bag(counts: list[int]) -> None:
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((9, 4)).astype(np.float32)
    places = rng.integers(0, 9, sum(counts))
    found = bags.sums(rows, places, np.array(counts, np.int64))
    borders = np.cumsum([0, *counts])
    expected = [rows[places[a:b]].sum(axis=0, dtype=float) for a, b in pairwise(borders)]
    np.testing.assert_allclose(found, np.reshape(expected, (-1, 4)), rtol=1e-14)


@pytest.mark.parametrize(
    "rows",
    [normal(9, 7), normal(9, 7).astype(np.float32), QuantisedRows.of(normal(9, 7).astype(np.float32), 3)],
    ids=["float64", "float32", "quantised"],
)
def test_compiled_loops_give_the_same_bits(
    rows: np.ndarray | QuantisedRows, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = np.array([0, 2, 0, 0, 1, 30, 0])
    places = np.random.default_rng(1).integers(0, 9, counts.sum())
    monkeypatch.setattr(bags, "_added", 0)
    plain = bags.sums(rows, places, counts)
    monkeypatch.setattr(bags, "LOOPS_FROM", bags._added)
    with monkeypatch.context() as patch:
        patch.setattr(np, "argsort", None)  # NumPy's way needs it
        assert np.array_equal(bags.sums(rows, places, counts), plain)
