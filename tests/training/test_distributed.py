"""One process alone, memory for computation; several processes are tried in tests/commands."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.errors import MexmaError
from mexma_cli.objectives.mexma.loss import Mexma
from mexma_cli.objectives.mexma.settings import Head, MexmaSettings
from mexma_cli.objectives.views import TokenPairs
from mexma_cli.training import distributed
from mexma_cli.training.distributed import PATIENCE, Processes, meet, save_activations, wait_long, whole

TORCHRUN = "TORCHELASTIC_USE_AGENT_STORE"


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """That of the first of two processes, with the store that torchrun keeps for them."""
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.port)}
    for name, value in (where | {"RANK": "0", "WORLD_SIZE": "2", TORCHRUN: "True"}).items():
        monkeypatch.setenv(name, value)
    yield
    if dist.is_initialized():
        dist.destroy_process_group()


def test_that_others_do_not_come_is_said_soon(place: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distributed, "MEETING", timedelta(seconds=1))
    with pytest.raises(MexmaError, match="the processes of this run did not meet within 1 seconds"):
        meet()


def test_those_who_have_met_wait_long_for_one_another(place: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "1")
    meet()
    wait_long()
    group = dist.distributed_c10d._get_default_group()
    assert group._get_backend(torch.device("cpu")).options._timeout == PATIENCE


def test_alone() -> None:
    with Processes.joined() as processes:
        assert processes.first and processes.size == 1
        assert processes.device("cpu") == torch.device("cpu")
        processes.wait()
        assert processes.any(True) and not processes.any(False)
        assert processes.gather("here") == ["here"]
        assert processes.sum(torch.tensor([1.5, 2.0])).tolist() == [1.5, 2.0]


def test_an_error_alone_is_the_error() -> None:
    with pytest.raises(MexmaError, match="mine"), Processes.joined():
        raise MexmaError("mine")


def test_one_gpu_by_its_number_is_not_shared() -> None:
    processes = Processes()
    processes.size = 2
    assert processes.device("cpu") == torch.device("cpu")
    with pytest.raises(MexmaError, match="2 processes share it") as caught:
        processes.device("cuda:1")
    assert caught.value.hint is not None and "`auto`" in caught.value.hint


@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_activations_computed_again_give_the_same_gradients(
    dropout: float, tiny_encoder: Path, sentences: dict[str, list[str]]
) -> None:
    """Through encoder and head, dropout included, and with fewer numbers kept in between."""
    kept: dict[bool, int] = {}
    gradients: dict[bool, dict[str, torch.Tensor]] = {}
    for saving in (False, True):
        encoder = SentenceEncoder.load(str(tiny_encoder), "cpu")
        for module in encoder.model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = dropout
        torch.manual_seed(0)
        head = Head(layers=2, heads=4, ffn=64, dropout=dropout)
        objective = Mexma(encoder, MexmaSettings(name="mexma", head=head)).train()
        sides = [[ids[1:-1] for ids in encoder.tokenize(sentences[side])] for side in ("fra", "eng")]
        pairs: list[tuple[np.ndarray, np.ndarray]] = list(zip(*sides, strict=True))
        views = objective.batch(TokenPairs(pairs))
        if saving:
            save_activations(objective)
        sizes: list[int] = []

        def pack(tensor: torch.Tensor, sizes: list[int] = sizes) -> torch.Tensor:
            sizes.append(tensor.numel())
            return tensor

        torch.manual_seed(1)
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            terms = objective(views)
        sum(objective.weights[name] * term for name, term in terms.items()).backward()
        kept[saving] = sum(sizes)
        gradients[saving] = {n: p.grad for n, p in objective.named_parameters() if p.grad is not None}
    assert gradients[True].keys() == gradients[False].keys()
    for name, gradient in gradients[False].items():
        assert torch.equal(gradients[True][name], gradient), name
    assert kept[True] < kept[False] / 2


def test_whole_weights_are_kept_by_who_writes_them() -> None:
    """All processes put them together, and the others would hold a copy each on the host."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        part = distribute_tensor(torch.arange(6.0), init_device_mesh("cpu", (1,)), [Shard(0)])
        tree = {"players": [{"mean": part, "step": 3}]}
        assert torch.equal(whole(tree)["players"][0]["mean"], torch.arange(6.0))
        assert whole(tree, kept=False) == {"players": [{"mean": None, "step": 3}]}
    finally:
        dist.destroy_process_group()
