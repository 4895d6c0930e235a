"""Products with sums in registers: NumPy's, for all sizes, from either side."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mexma_cli.numerics.compiling import summing
from mexma_cli.numerics.lanes import LANES, multiply


@summing
def product(left, right, rows, inner, columns, out) -> None:  # type: ignore[no-untyped-def]
    multiply(left.T, right, rows, inner, columns, out)


@settings(max_examples=30)
@given(st.integers(1, 40), st.integers(0, 40), st.integers(1, 40), st.integers(0, 1000))
def test_it_is_the_product(rows: int, inner: int, columns: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    left = rng.standard_normal((inner, rows + LANES), np.float32)
    right = rng.standard_normal((inner, columns + LANES), np.float32)
    out = np.full((rows + LANES, columns + LANES), 7, np.float32)
    product(left, right, rows, inner, columns, out)
    expected = left.T.astype(float)[:rows] @ right.astype(float)[:, :columns]
    assert np.abs(out[:rows, :columns] - expected).max() < 1e-4
    assert (out[-(-rows // 8) * 8 :] == 7).all() and (out[:, -(-columns // LANES) * LANES :] == 7).all()
