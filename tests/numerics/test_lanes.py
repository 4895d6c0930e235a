"""Loops in registers: NumPy's results, for all sizes, from either side, by every instruction there is."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mexma_cli.numerics.compiling import summing
from mexma_cli.numerics.kernels import plain
from mexma_cli.numerics.lanes import LANES, exponentials, largest, multiply, pairs, quads, scale, tiles

PAIRS = {pairs(), np.uint32} if pairs() else set()
QUADS = {quads(), np.uint32} if quads() else set()


@summing
def product(left, right, rows, inner, columns, first, beside, out) -> None:  # type: ignore[no-untyped-def]
    multiply(left.T, right, out, (rows, inner, columns), (first, beside))


@given(
    st.integers(1, 40),
    st.integers(0, 40),
    st.integers(1, 40),
    st.tuples(*[st.integers(0, 20)] * 2),
    st.integers(0),
)
def test_it_is_the_product(rows: int, inner: int, columns: int, places: tuple[int, int], seed: int) -> None:
    rng, (first, beside) = np.random.default_rng(seed), places
    left = rng.standard_normal((first + inner, rows + LANES), np.float32)
    right = rng.standard_normal((inner, beside + columns + LANES), np.float32)
    out = np.full((rows + LANES, beside + columns + LANES), 7, np.float32)
    product(left, right, rows, inner, columns, *places, out)
    expected = left.T.astype(float)[:rows, first:] @ right.astype(float)[:, beside : beside + columns]
    assert np.abs(out[:rows, beside : beside + columns] - expected).max() < 1e-4
    untouched = out[-(-rows // 8) * 8 :], out[:, :beside], out[:, beside + -(-columns // LANES) * LANES :]
    assert all((part == 7).all() for part in untouched)


@summing
def product_of_pairs(left, right, rows, inner, columns, out) -> None:  # type: ignore[no-untyped-def]
    tiles(left, True)
    multiply(left, right, out, (rows, inner, columns), (np.int64(0), np.int64(0)))
    tiles(left, False)


@pytest.mark.skipif(not PAIRS, reason="this processor multiplies no bfloat16")
@pytest.mark.parametrize("pair", PAIRS, ids=str)
@pytest.mark.parametrize(("rows", "inner", "columns"), [(1, 16, 1), (33, 48, 70), (64, 32, 32)])
def test_it_is_the_product_of_pairs(pair: type[np.generic], rows: int, inner: int, columns: int) -> None:
    random = torch.Generator().manual_seed(rows)
    left = torch.randn(rows + LANES, 2 * inner, generator=random).bfloat16()
    right = torch.randn(2 * inner, columns + LANES, generator=random).bfloat16()
    beside = torch.stack([right[0::2], right[1::2]], dim=-1).flatten(1)
    out = np.full((rows + LANES, columns + LANES), 7, np.float32)
    product_of_pairs(plain(left).view(pair), plain(beside).view(pair), rows, inner, columns, out)
    expected = (left.double() @ right.double()).numpy()[:rows, :columns]
    assert np.abs(out[:rows, :columns] - expected).max() < 1e-4
    assert (out[-(-rows // 32) * 32 :] == 7).all() and (out[:, -(-columns // 32) * 32 :] == 7).all()


@pytest.mark.skipif(not QUADS, reason="this processor multiplies no int8")
@pytest.mark.parametrize("quad", QUADS, ids=str)
@pytest.mark.parametrize(("rows", "inner", "columns"), [(1, 16, 1), (33, 48, 70), (64, 8192, 32)])
def test_it_is_the_exact_product_of_quads(
    quad: type[np.generic], rows: int, inner: int, columns: int
) -> None:
    """Sums of 16 bits would be full of the first, of float32 inexact in the last."""
    rng = np.random.default_rng(rows)
    left = rng.integers(0, 256, (rows + LANES, 4 * inner)).astype(np.uint8)
    right = rng.integers(-128, 128, (columns + LANES, inner, 4)).astype(np.int8)
    left[0], right[0] = 255, -128
    out = np.full((rows + LANES, columns + LANES), 7, np.int32)
    beside = np.ascontiguousarray(right.transpose(1, 0, 2)).view(quad)[:, :, 0]
    product_of_pairs(left.view(quad), beside, rows, inner, columns, out)
    expected = left.astype(np.int64) @ right.reshape(-1, 4 * inner).T.astype(np.int64)
    assert (out[:rows, :columns] == expected[:rows, :columns]).all()
    assert (out[-(-rows // 32) * 32 :] == 7).all() and (out[:, -(-columns // 32) * 32 :] == 7).all()


@summing
def softened(x, size, norm, out, found) -> None:  # type: ignore[no-untyped-def]
    found[0] = largest(x, 1, size)
    found[1] = exponentials(x, 1, size, norm, out)
    scale(x, 1, 16, 3, np.float32(2))


@pytest.mark.parametrize("low", [False, True])
def test_exponentials(low: bool) -> None:
    x = np.random.default_rng(0).normal(0, 40, (3, 64)).astype(np.float32)
    x[1, 40:44] = -np.inf, -1000, 80, 3
    before, found = x.copy(), np.zeros(2, np.float32)
    out = torch.full(x.shape, 7, dtype=torch.bfloat16 if low else torch.float32)
    softened(x, 48, np.float32(80), plain(out) if low else out.numpy(), found)
    powers = np.exp(np.maximum(before[1, :48] - np.float32(80), -87).astype(float))
    assert found[0] == before[1, :48].max() and found[1] == pytest.approx(powers.sum(), rel=1e-6)
    np.testing.assert_allclose(out[1, :48].float(), powers, rtol=4e-3 if low else 1e-6)
    assert (out[::2] == 7).all() and (out[1, 48:] == 7).all()
    assert np.array_equal(x[1, 16:19], 2 * before[1, 16:19])
    assert np.array_equal(x[:, :16], before[:, :16]) and np.array_equal(x[:, 32:], before[:, 32:])
