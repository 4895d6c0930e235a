"""Layers for training on a processor: transformers' in states and gradients."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from transformers import AutoModel, PreTrainedModel

from mexma_cli.encoder.model.attention import run_packed, use_packed_attention
from mexma_cli.encoder.model.packing import pack
from mexma_cli.objectives.mexma.head import UnmaskingHead
from mexma_cli.objectives.mexma.settings import Head
from mexma_cli.training.add_norm import add_norm
from mexma_cli.training.distributed import save_activations
from mexma_cli.training.dropout import _draw
from mexma_cli.training.layers import Encoder, Layer, use_fast_layers

ROUNDING = {torch.float32: 2e-5, torch.bfloat16: 2e-2}
BATCH = pack([np.random.default_rng(n).integers(5, 140, n) for n in (30, 7, 7, 1, 60)], 2)


@pytest.fixture
def model(tiny_encoder: Path) -> PreTrainedModel:
    """With norms and biases that are not the first ones, without dropout."""
    model: PreTrainedModel = AutoModel.from_pretrained(tiny_encoder, add_pooling_layer=False).train()
    use_packed_attention(model)
    torch.manual_seed(0)
    for part in model.modules():
        if isinstance(part, nn.Dropout):
            part.p = 0.0
        for weight in part.parameters(recurse=False):
            if weight.dim() == 1:
                nn.init.normal_(weight, 0.5)
    return model


def trained(
    model: nn.Module, dtype: torch.dtype, seed: int = 0
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """The last states of a batch, and the gradients of every weight that has one."""
    torch.manual_seed(seed)
    model.zero_grad()
    with torch.autocast("cpu", dtype, enabled=dtype != torch.float32):
        states = run_packed(model, BATCH, "bucketed")  # type: ignore[arg-type]
    slope = torch.randn(states.shape, generator=torch.Generator().manual_seed(1))
    states.backward(slope.to(states.dtype))
    return states.detach(), {n: p.grad for n, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("dtype", list(ROUNDING))
def test_states_and_gradients_are_those_of_transformers_layers(
    model: PreTrainedModel, dtype: torch.dtype
) -> None:
    """As near to those in float64 as transformers' are."""
    hastened, exact = copy.deepcopy(model), copy.deepcopy(model).double()
    use_fast_layers(hastened)
    expected, true = trained(exact, torch.float32)
    states, gradients = trained(model, dtype)
    found, slopes = trained(hastened, dtype)
    assert found.dtype == states.dtype == torch.float32
    assert float((found - expected).abs().max()) < ROUNDING[dtype] * float(expected.abs().max())
    assert slopes.keys() == gradients.keys() == true.keys()
    for name, slope in slopes.items():
        # The bias of keys does not change a softmax: its slope is rounding alone.
        size = float(true[name.replace("key.bias", "query.bias")].norm())
        theirs, ours = (float((one - true[name]).norm()) for one in (gradients[name], slope))
        assert ours < 3 * theirs + ROUNDING[dtype] * size, name


def test_layers_that_forget_their_activations_drop_the_same_twice(model: PreTrainedModel) -> None:
    use_fast_layers(model)
    for part in model.modules():
        if isinstance(part, nn.Dropout):
            part.p = 0.2
    states, gradients = trained(model, torch.bfloat16)
    assert not torch.equal(states, trained(model, torch.bfloat16, seed=1)[0])
    save_activations(model)  # type: ignore[arg-type]
    again, slopes = trained(model, torch.bfloat16)
    assert torch.equal(states, again)
    assert all(torch.equal(slopes[name], slope) for name, slope in gradients.items())


def test_what_is_frozen_gets_no_gradient(model: PreTrainedModel) -> None:
    use_fast_layers(model)
    model.embeddings.requires_grad_(False)
    model.encoder.layer[0].requires_grad_(False)
    _, gradients = trained(model, torch.bfloat16)
    assert gradients.keys() == {name for name, weight in model.named_parameters() if weight.requires_grad}


def test_it_takes_the_place_of_berts_encoders_and_of_no_other(model: PreTrainedModel) -> None:
    other = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16), 1, enable_nested_tensor=False)
    parts = nn.ModuleList([model, UnmaskingHead(Head(layers=1, heads=4, ffn=16), 32, 10), other])
    names = list(parts.state_dict())
    use_fast_layers(parts)
    assert [type(part) for part in (parts[0].encoder, parts[1].layers)] == [Encoder, Encoder]
    assert sum(type(part) is Layer for part in parts.modules()) == 3
    assert type(parts[2]) is nn.TransformerEncoder
    assert list(parts.state_dict()) == names


@given(
    st.integers(1, 9),
    st.sampled_from([1, 5, 16, 130]),
    st.sampled_from(list(ROUNDING)),
    st.sampled_from([0.0, 0.3]),
    st.integers(0, 1000),
)
def test_dropout_residual_and_norm_are_torchs_in_float64(
    rows: int, width: int, dtype: torch.dtype, share: float, seed: int
) -> None:
    torch.manual_seed(seed)
    x, first = (torch.randn(rows, width) for _ in range(2))
    y, low_slope = (torch.randn(rows, width).to(dtype) for _ in range(2))
    norm = nn.LayerNorm(width, eps=0.1)
    nn.init.normal_(norm.weight)
    nn.init.normal_(norm.bias)
    theirs = copy.deepcopy(norm).double()
    ours = [x.clone().requires_grad_(), y.clone().requires_grad_()]
    doubles = [part.detach().double().requires_grad_() for part in ours]

    torch.manual_seed(seed)
    out, low = add_norm(ours[0], ours[1], norm, share)
    torch.autograd.backward([out, low], [first, low_slope])

    torch.manual_seed(seed)
    kept = np.ones((rows, width), np.float32)
    if share:
        number = np.uint32(int(torch.randint(1 << 32, ())))
        for row in range(rows):
            _draw(kept[row : row + 1], row, number, np.float32(share))
    expected = theirs(doubles[0] + doubles[1] * torch.from_numpy(kept).double())
    expected.backward(first.double() + low_slope.double())

    assert out.dtype == torch.float32 and low.dtype == dtype
    pairs = [(out, expected, 1e-5), (low, expected, ROUNDING[dtype])]
    pairs += [(norm.weight.grad, theirs.weight.grad, 1e-5), (norm.bias.grad, theirs.bias.grad, 1e-5)]
    pairs += [(ours[0].grad, doubles[0].grad, 1e-5), (ours[1].grad, doubles[1].grad, ROUNDING[dtype])]
    for found, wanted, rounding in pairs:
        assert float((found - wanted).detach().abs().max()) < rounding * (
            1 + float(wanted.detach().abs().max())
        )
