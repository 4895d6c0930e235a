"""Rows whose sums are stored better than they are themselves."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from docs.make_mini.sums import Members, coded_together
from mexma_cli.numerics.trellis import Coded

DIM = 32
WORDS = 800


@pytest.fixture(scope="module")
def words() -> tuple[torch.Tensor, Members]:
    """1,000 n-grams, and 800 words of 4 to 12 of them, the first ones in most."""
    generator = np.random.default_rng(0)
    lengths = generator.integers(4, 13, WORDS)
    rows = np.concatenate([(1000 * generator.random(n) ** 2).astype(np.int64) for n in lengths])
    vectors = torch.randn(1000, DIM, generator=torch.Generator().manual_seed(0))
    return vectors, Members(rows, np.repeat(np.arange(WORDS), lengths), WORDS)


def off(found: torch.Tensor, expected: torch.Tensor) -> float:
    return float((found - expected).square().sum() / expected.square().sum())


def test_sums_are_over_the_root_of_their_number(words: tuple[torch.Tensor, Members]) -> None:
    vectors, members = words
    sums = members.of(vectors)
    for place in (0, 7, WORDS - 1):
        own = members.rows[members.sums == place]
        expected = vectors[torch.from_numpy(own)].sum(dim=0) / len(own) ** 0.5
        torch.testing.assert_close(sums[place], expected)


@pytest.mark.parametrize("left_out", [0, 150])
def test_sums_are_off_by_less(words: tuple[torch.Tensor, Members], left_out: int) -> None:
    """Of what they are off by when each row is stored as well as it can be; also when some are left out."""
    vectors, members = words
    bits = np.resize(np.array([1, 2, 1, 4], np.uint8), len(vectors))
    bits[len(bits) - left_out :] = 0
    kept = np.flatnonzero(bits)
    together = coded_together(vectors, bits, members, power=1.0)
    apart = Coded.of(vectors[torch.from_numpy(kept)], bits[kept])
    assert np.array_equal(together.bits, apart.bits)
    expected, of_kept = members.of(vectors), members.only(kept)
    found = of_kept.of(together.restore())
    assert off(found, expected) < 0.7 * off(of_kept.of(apart.restore()), expected)


def test_lengths_matter_less_with_a_smaller_power(words: tuple[torch.Tensor, Members]) -> None:
    """Short sums are off by less of their length, since their directions count as others' do."""
    vectors, members = words
    vectors = vectors * torch.linspace(0.05, 2, len(vectors))[:, None]
    bits = np.ones(len(vectors), np.uint8)
    expected = members.of(vectors)
    lengths = expected.norm(dim=1)
    short = lengths < lengths.quantile(0.2)
    found = [
        members.of(coded_together(vectors, bits, members, power).restore())[short] for power in (0.0, 1.0)
    ]
    relative = [((each - expected[short]).norm(dim=1) / expected[short].norm(dim=1)).mean() for each in found]
    assert relative[0] < relative[1]


def test_it_is_the_same_every_time(words: tuple[torch.Tensor, Members]) -> None:
    vectors, members = words
    bits = np.full(len(vectors), 2, np.uint8)
    one, other = (coded_together(vectors, bits, members, 0.6).restore() for _ in range(2))
    assert torch.equal(one, other)
