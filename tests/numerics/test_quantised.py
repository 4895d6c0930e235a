"""Rows as bytes, each of which stands for a few numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mexma_cli.numerics.quantised import QuantisedRows

MAX_1960 = {2: 0.009497, 4: 0.1175}
"""The squared error of normal numbers that are rounded one by one to the best 16 or 4 levels (table I)."""


def normal(rows: int, width: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((rows, width), np.float32)


@pytest.mark.parametrize("part", [2, 4])
def test_it_is_off_by_less_than_rounding_is(part: int) -> None:
    """With as many bits; of rows of any length."""
    rows = normal(2000, 64) * np.logspace(-3, 3, 2000, dtype=np.float32)[:, None]
    coded = QuantisedRows.of(rows, part)
    assert coded.codes.nbytes == 2000 * 64 // part and coded.shape == rows.shape
    off = (np.square(coded[:] - rows).sum(axis=1) / np.square(rows).sum(axis=1)).mean()
    assert 0.7 * MAX_1960[part] < off < MAX_1960[part]


def test_codes_are_of_the_nearest_in_the_codebook() -> None:
    coded = QuantisedRows.of(rows := normal(300, 8), 4)
    parts = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).reshape(300, 2, 1, 4)
    assert np.array_equal(coded.codes, np.square(parts - coded.codebook).sum(axis=3).argmin(axis=2))


@settings(max_examples=20)
@given(st.integers(1, 20), st.integers(0, 30), st.integers(1, 4))
def test_any_shape(rows: int, width: int, part: int) -> None:
    coded = QuantisedRows.of(normal(rows, width + 1), part)
    assert coded.shape == (rows, width + 1) and np.isfinite(coded[:]).all()
    again = QuantisedRows.read(coded.arrays() | {"other": np.zeros(3)})
    places = np.array([rows - 1, 0, 0])
    assert np.array_equal(again[places], coded[:][places])
    assert again[places[:0]].shape == (0, width + 1)


def test_zeros_stay_zeros() -> None:
    assert not QuantisedRows.of(np.zeros((3, 8), np.float32), 2)[:].any()


def test_it_is_the_same_every_time() -> None:
    first, second = (QuantisedRows.of(normal(50, 16), 2).arrays() for _ in "ab")
    assert all(np.array_equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("name", ["codes", "lengths", "codebook", "width"])
def test_arrays_that_do_not_fit_are_refused(name: str) -> None:
    stored = QuantisedRows.of(normal(80, 20), 2).arrays()
    stored[name] = stored[name][1:] if name != "width" else np.array(10)
    with pytest.raises(ValueError, match=r"(79|80) rows of (20|10) numbers"):
        QuantisedRows.read(stored)
