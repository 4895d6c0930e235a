"""The engine's attention: torch's in float64, in every type and size and by every instruction there is."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mexma_cli.encoder.model import forward_attention
from mexma_cli.encoder.model.forward_attention import attend
from mexma_cli.numerics.lanes import pairs

TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 2e-2}
PAIRS = {None, pairs(), np.uint32 if pairs() else None}
LENGTHS = st.one_of(st.integers(1, 9), st.sampled_from([31, 32, 33, 100, 150]))


def in_float64(states: torch.Tensor, heads: int, lengths: list[int]) -> torch.Tensor:
    parts = states[: sum(lengths)].double().view(sum(lengths), 3, heads, -1).split(lengths)
    means = []
    for part in parts:
        q, k, v = part.permute(1, 2, 0, 3)
        means.append(((q @ k.mT).softmax(-1) @ v).transpose(0, 1).flatten(1))
    return torch.cat(means)


@pytest.mark.parametrize("pair", PAIRS, ids=str)
@given(
    lengths=st.lists(LENGTHS, min_size=1, max_size=9),
    heads=st.integers(1, 4),
    dim=st.sampled_from([1, 2, 5, 16, 40, 64]),
    dtype=st.sampled_from(list(TOLERANCE)),
    spread=st.sampled_from([0.0, 1.0, 30.0]),
    behind=st.integers(0, 3),
)
def test_it_is_attention(
    pair: type[np.generic] | None,
    lengths: list[int],
    heads: int,
    dim: int,
    dtype: torch.dtype,
    spread: float,
    behind: int,
) -> None:
    random = torch.Generator().manual_seed(sum(lengths))
    states = torch.randn(sum(lengths) + behind, 3 * heads * dim, generator=random)
    states[:, : heads * dim] *= spread
    states[sum(lengths) :] = torch.nan
    states = states.to(dtype)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(forward_attention, "pairs", lambda: pair)
        found, first = (attend(states, heads, lengths, first_only) for first_only in (False, True))
    expected = in_float64(states, heads, lengths)
    assert found.dtype == dtype and found.shape == (len(states), heads * dim)
    assert first.dtype == dtype and first.shape == (len(lengths), heads * dim)
    rounding = TOLERANCE[dtype] * (1 + spread / 10) * (1 + dim**0.5)
    assert float((found[: len(expected)] - expected).abs().max()) < rounding
    assert (found[len(expected) :] == 0).all()
    starts = np.cumsum(lengths) - lengths
    assert float((first - expected[starts]).abs().max()) < rounding


@pytest.mark.parametrize("dtype", list(TOLERANCE), ids=str)
def test_what_is_no_number_stays_seen(dtype: torch.dtype) -> None:
    states = torch.randn(7, 12, generator=torch.Generator().manual_seed(0)).to(dtype)
    states[2, 5] = torch.nan  # a key
    found = attend(states, 1, [4, 3], first_only=False)
    assert found[:4].isnan().all() and not found[4:].isnan().any()
