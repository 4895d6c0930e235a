"""Sums of rows."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from mexma_cli.numerics import bags


@pytest.mark.parametrize("counts", [[], [0], [3], [0, 2, 0, 0, 1, 5, 0], [1] * 200])
def test_sums_are_those_of_each_bag(counts: list[int]) -> None:
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((9, 4)).astype(np.float32)
    places = rng.integers(0, 9, sum(counts))
    found = bags.sums(rows, places, np.array(counts, np.int64))
    borders = np.cumsum([0, *counts])
    expected = [rows[places[a:b]].sum(axis=0, dtype=float) for a, b in pairwise(borders)]
    np.testing.assert_allclose(found, np.reshape(expected, (-1, 4)), rtol=1e-14)
