"""Layers and dropout for training on a processor are transformers' and torch's; memory stays."""

from __future__ import annotations

import copy
import platform
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
from mexma_cli.objectives.mexma.loss import UnmaskingHead
from mexma_cli.objectives.mexma.settings import Head
from mexma_cli.training.distributed import save_activations
from mexma_cli.training.processor import (
    BLOCK,
    Dropout,
    Layer,
    ProcessorEncoder,
    _draw,
    add_norm,
    denormals_flushed,
    use_fast_dropout,
    use_fast_layers,
)
from tests.examples import tiny_recipe
from tests.processes import Program

SIZE = 1 << 27
HELD = """
import resource
import torch
from mexma_cli.training.processor import KeptMemory
def held():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()
torch.ones(1)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="mallopt is glibc's")
def test_freed_memory_stays_with_the_process() -> None:
    """In parts of an activation's size; without `KeptMemory` the system has it again."""
    program = f"""{HELD}
def still_held():
    before = held()
    parts = [torch.ones({SIZE} // 16 // 4) for _ in range(16)]
    assert held() - before > 0.9 * {SIZE}
    del parts
    return held() - before
assert still_held() < 0.2 * {SIZE}
KeptMemory()
assert still_held() > 0.9 * {SIZE}
"""
    process = Program(program)
    assert process.wait() == 0, process.communicate()


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="mallopt is glibc's")
def test_what_is_kept_does_not_grow_beyond_what_a_step_needs() -> None:
    """Nor does a step that takes four times as much leave all of that behind; but needs may become more."""
    program = f"""{HELD}
def take(memory, tensors):
    parts = [torch.ones({SIZE} // 4 // 4) for _ in range(tensors)]
    del parts
    memory.bound()
before = held()
for steps in ((4, 4, 4, 16, 4, 4), (16, 4, 4), (4, 16, 4)):
    memory = KeptMemory()
    for tensors in steps:
        take(memory, tensors)
        assert held() < 1.35 * (before + {SIZE}), (steps, tensors, held() - before)
for _ in range(3):
    take(memory, 16)
assert held() > before + 3.6 * {SIZE}, held() - before
"""
    process = Program(program)
    assert process.wait() == 0, process.communicate()


def test_denormals_are_flushed_inside_only() -> None:
    tiny = torch.tensor([1e-40])
    with denormals_flushed():
        assert (tiny * 1).item() == 0
    assert (tiny * 1).item() > 0


def test_all_threads_of_a_training_command_flush_them(
    sentences: dict[str, list[str]], tmp_path: Path
) -> None:
    """Threads keep what they were started with, so the command has to be first."""
    trainer = {"batch_pairs": 4, "steps": 1, "warmup": 0, "device": "cpu"}
    keys = {"trainer": trainer, "phases": [{"name": "one", "objective": {"name": "contrastive"}}]}
    program = """
import sys, torch
torch.set_num_threads(2)
import mexma_cli.stages.train.train as stage
from mexma_cli.main import cli
def prepare(*_):
    assert torch.get_num_threads() == 2
    print(int((torch.full((1 << 22,), 1e-40) * 1 == 0).sum()) - (1 << 22))
    sys.exit(0)
stage.prepare = prepare
cli(["train", sys.argv[1]])
"""
    process = Program(program, tiny_recipe(tmp_path, sentences, keys))
    stdout, stderr = process.communicate()
    assert stdout == "0\n", stderr


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
    assert [type(part) for part in (parts[0].encoder, parts[1].layers)] == [
        ProcessorEncoder,
        ProcessorEncoder,
    ]
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
    use_fast_dropout(model)
    assert [type(part) for part in model.modules() if isinstance(part, Dropout)] == [Dropout, Dropout]
    assert model[1].p == 0.2 and type(model[2][0]) is nn.AlphaDropout
    assert list(model.state_dict()) == names
