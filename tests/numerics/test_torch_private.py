"""Each private operator of torch against the public one, and without it."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace

import pytest
import torch
from torch import distributed

from mexma_cli.numerics import torch_private
from mexma_cli.numerics.torch_private import (
    computes_bf16,
    computes_fp16,
    has_onednn,
    move_all,
    multiply_all,
    onednn_linear,
    packed,
    set_timeout,
)

NONE = SimpleNamespace()


@pytest.fixture
def numbers() -> torch.Generator:
    return torch.Generator().manual_seed(1)


@pytest.mark.parametrize(("name", "algorithm"), [("none", ""), ("gelu", "tanh"), ("relu", "")])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_linear(name: str, algorithm: str, dtype: torch.dtype, numbers: torch.Generator) -> None:
    if not has_onednn(dtype):
        pytest.skip("no oneDNN for this type here")
    x, weight, bias = (torch.randn(*size, generator=numbers).to(dtype) for size in ((5, 8), (3, 8), (3,)))
    wanted = torch.nn.functional.linear(x.float(), weight.float(), bias.float())
    if name == "gelu":
        wanted = torch.nn.functional.gelu(wanted, approximate="tanh")
    elif name == "relu":
        wanted = torch.relu(wanted)
    found = onednn_linear(x, packed(weight), bias, name, algorithm)
    torch.testing.assert_close(found.float(), wanted, atol=0.03 if dtype == torch.bfloat16 else 1e-5, rtol=0)


@pytest.mark.parametrize("there", [True, False])
def test_in_place(there: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not there:
        monkeypatch.delattr(torch, "_foreach_mul_")
        monkeypatch.delattr(torch, "_foreach_lerp_")
    tensors, ends = [torch.ones(2), torch.full((3,), 2.0)], [torch.full((2,), 7.0), torch.zeros(3)]
    multiply_all(tensors, torch.tensor(3.0))
    move_all(tensors, ends, 0.25)
    assert [tensor.tolist() for tensor in tensors] == [[4.0, 4.0], [4.5, 4.5, 4.5]]


def test_patience(tmp_path: object) -> None:
    store = distributed.FileStore(f"{tmp_path}/meet", 1)
    distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        set_timeout(None, timedelta(minutes=7))
        group = distributed.distributed_c10d._get_default_group()
        assert group._get_backend(torch.device("cpu")).options._timeout == timedelta(minutes=7)
    finally:
        distributed.destroy_process_group()


def test_a_torch_without_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_private, "torch", _without(torch, cpu=NONE, ops=_without(mkldnn=NONE)))
    monkeypatch.setattr(torch_private.distributed, "distributed_c10d", NONE)
    assert not (computes_bf16() or computes_fp16() or has_onednn(torch.float32))
    set_timeout(None, timedelta(minutes=7))


def _without(*rooms: object, **parts: object) -> SimpleNamespace:
    known = {name: getattr(room, name) for room in rooms for name in ("float32", "bfloat16", "backends")}
    return SimpleNamespace(**known | parts)
