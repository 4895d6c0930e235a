"""Numbers in 1, 2 and 4 bits."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mexma_cli.numerics.trellis import BITS, ERRORS, QuantisedMatrix, encode, fitted, lookup_table, restore

MAX_1960 = {1: 0.3634, 2: 0.1175, 4: 0.009497}
"""The squared error of normal numbers that are rounded to the best levels (table I)."""


def normal(rows: int, dim: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(rows, dim, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(("bits", "error"), [*zip(BITS, ERRORS, strict=True)])
def test_it_is_off_by_less_than_rounding_is(bits: int, error: float) -> None:
    """Of rows of any length and scale, with the levels of other rows."""
    levels = fitted(normal(1024, 32), bits)
    rows = normal(64, 320, 1) * torch.logspace(-3, 3, 64)[:, None]
    codes, scales = encode(rows, bits, levels)
    assert codes.dtype == torch.uint8 and codes.shape == (64, 40 * bits)
    restored = restore(codes, scales, lookup_table(levels), 320)
    assert restored.dtype == torch.float16
    off = ((restored - rows).square().sum(dim=1) / rows.square().sum(dim=1)).mean().item()
    assert off == pytest.approx(error, rel=0.08)
    assert off < 0.8 * MAX_1960[bits]


def test_the_search_finds_the_best_of_all_paths() -> None:
    """Against all codes of a short row, with levels and a scale that leave nothing to fit."""
    torch.manual_seed(2)
    levels = torch.randn(512).half()
    rows = normal(5, 8, 3)
    unit = rows / rows.square().mean(dim=1, keepdim=True).sqrt()
    every = torch.arange(256, dtype=torch.uint8)[:, None]
    choices = restore(every, torch.ones(256).half(), lookup_table(levels), 8).float()
    best = (unit[:, None] - choices).square().sum(dim=2).argmin(dim=1)
    assert encode(rows, 1, levels)[0].flatten().tolist() == best.tolist()


@settings(max_examples=20)
@given(st.integers(1, 40), st.integers(0, 3), st.sampled_from(BITS))
def test_any_shape(dim: int, rows: int, bits: int) -> None:
    levels = fitted(normal(rows, dim), bits)
    codes, scales = encode(normal(rows, dim), bits, levels)
    assert codes.shape == (rows, -(dim * bits // -8))
    restored = restore(codes, scales, lookup_table(levels), dim)
    assert restored.shape == (rows, dim) and restored.isfinite().all()


def test_zeros_stay_zeros() -> None:
    assert not QuantisedMatrix.of(torch.zeros(3, 8), np.full(3, 2, np.uint8)).restore().any()


def test_it_is_the_same_every_time() -> None:
    first, second = (QuantisedMatrix.of(normal(9, 16), np.full(9, 2, np.uint8)).tensors() for _ in "ab")
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_rows_of_different_bits() -> None:
    """Rows have the values that they have alone, when they are read one by one, stored, or written anew."""
    rows, bits = normal(90, 20), np.resize(np.array([2, 1, 4], np.uint8), 90)
    coded = QuantisedMatrix.of(rows, bits)
    for count in BITS:
        own = torch.from_numpy(bits == count)
        levels = fitted(rows[own], count)
        codes, scales = encode(rows[own], count, levels)
        assert torch.equal(coded.restore()[own], restore(codes, scales, lookup_table(levels), 20))
    again = QuantisedMatrix.read(coded.tensors(), 90, 20)
    places = np.array([5, 3, 5, 88])
    assert torch.equal(again.rows(places)[places], coded.restore()[places])
    assert torch.equal(again.restore(), coded.restore())
    again.write(places[:2], rows[:2])
    changed = np.isin(np.arange(90), places[:2])
    assert torch.equal(again.restore()[~changed], coded.restore()[~changed])
    assert not torch.equal(again.restore()[changed], coded.restore()[changed])


@pytest.mark.parametrize("name", ["codes2", "scales2", "levels2", "bits"])
def test_parts_that_do_not_fit_are_refused(name: str) -> None:
    stored = QuantisedMatrix.of(normal(8, 20), np.full(8, 2, np.uint8)).tensors()
    stored[name] = stored[name][1:].contiguous()
    with pytest.raises(ValueError, match=r"rows"):
        QuantisedMatrix.read(stored, 8, 20)


def test_rows_that_were_first_read_for_inference_can_be_read_in_training() -> None:
    coded = QuantisedMatrix.of(normal(8, 16), np.full(8, 2, np.uint8))
    with torch.inference_mode():
        coded.rows(np.array([1]))
    assert coded.rows(np.array([1, 2]))[2].any()
