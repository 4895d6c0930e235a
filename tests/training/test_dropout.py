"""Dropout by place: torch's in all but which numbers it leaves out."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from mexma_cli.training.dropout import BLOCK, Dropout, hasten_dropout

TYPES = [torch.float32, torch.bfloat16]


@given(
    st.sampled_from([1, 7, BLOCK - 1, BLOCK, BLOCK + 1, 5 * BLOCK + 3]),
    st.sampled_from(TYPES),
    st.sampled_from([0.1, 0.5, 0.9]),
    st.integers(0, 1000),
    st.sampled_from([1, 2, 3]),
)
def test_a_share_is_left_out_and_the_rest_is_scaled_on_both_ways(
    size: int, dtype: torch.dtype, share: float, seed: int, threads: int
) -> None:
    x = torch.randn(size, generator=torch.Generator().manual_seed(seed)).to(dtype).requires_grad_()
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    torch.manual_seed(seed)
    y = Dropout(share)(x)
    y.backward(torch.full_like(y, 3.0))
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    assert torch.equal(y, Dropout(share)(x))
    torch.set_num_threads(before)
    kept = y != 0
    assert y.dtype == dtype
    assert torch.equal(y, torch.where(kept, x.float() * (1 / (1 - torch.tensor(share))), 0.0).to(dtype))
    assert x.grad is not None
    assert torch.equal(x.grad, torch.where(kept, 3 * (1 / (1 - torch.tensor(share))), 0.0).to(dtype))


@pytest.mark.parametrize("dtype", TYPES)
def test_it_is_the_share_in_every_row_and_column_and_neighbours_do_not_matter(dtype: torch.dtype) -> None:
    share, shape = 0.3, (3000, 2 * BLOCK + 1)
    torch.manual_seed(0)
    dropped = (Dropout(share)(torch.ones(shape, dtype=dtype)) == 0).float()
    spread = (share * (1 - share)) ** 0.5
    for dim in (0, 1):
        means = dropped.mean(dim)
        assert float((means - share).abs().max()) < 5.5 * spread / shape[dim] ** 0.5
        assert float(means.std()) == pytest.approx(spread / shape[dim] ** 0.5, rel=0.1)
    for pairs in (dropped[1:] * dropped[:-1], dropped[:, 1:] * dropped[:, :-1]):
        assert float(pairs.mean()) == pytest.approx(share**2, rel=0.01)


def test_other_cases_are_torchs() -> None:
    x = torch.randn(50)
    assert Dropout(0.5).eval()(x) is x
    assert torch.equal(Dropout(0.0)(x), x)
    assert not Dropout(1.0)(x).any()
    torch.manual_seed(1)
    ours = Dropout(0.5)(x.double())
    torch.manual_seed(1)
    assert torch.equal(ours, nn.Dropout(0.5)(x.double()))


def test_it_takes_the_place_of_torchs_layers_and_of_no_other() -> None:
    model = nn.Sequential(
        nn.Linear(3, 3), nn.Dropout(0.2), nn.Sequential(nn.AlphaDropout(0.3), nn.Dropout(0.4))
    )
    names = list(model.state_dict())
    hasten_dropout(model)
    assert [type(part) for part in model.modules() if isinstance(part, Dropout)] == [Dropout, Dropout]
    assert model[1].p == 0.2 and type(model[2][0]) is nn.AlphaDropout
    assert list(model.state_dict()) == names
