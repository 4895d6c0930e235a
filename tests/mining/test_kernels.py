"""The compiled loops against NumPy."""

from __future__ import annotations

import numpy as np

from mexma_cli.mining.kernels import dots


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
