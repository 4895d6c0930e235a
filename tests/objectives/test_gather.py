"""Two processes, averaged as DDP averages, train what one process with all rows trains."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from mexma_cli.objectives import losses
from mexma_cli.objectives.gather import all_rows, global_mean

ROWS = (2, 5)
"""Of process 0 and of process 1: not the same."""
Terms = dict[str, torch.Tensor]
Loss = Callable[[nn.Module, torch.Tensor, torch.Tensor], Terms]


class Wrapped(nn.Module):
    """A layer whose loss is computed inside `forward`, as an objective's is."""

    def __init__(self, loss: Loss) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(6, 9)
        self.loss = loss

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Terms:
        return self.loss(self.layer, x, y)


def contrastive(layer: nn.Module, x: torch.Tensor, y: torch.Tensor) -> Terms:
    source, target, ids = all_rows(layer(x)), all_rows(layer(y)), all_rows(x[:, 0].long())
    repeated = (ids[:, None] == ids[None]).fill_diagonal_(False)
    return {"loss": losses.info_nce(source, target, 0.1, repeated), "rows": all_rows(x)}


def token_mean(layer: nn.Module, x: torch.Tensor, y: torch.Tensor) -> Terms:
    """Of squares, over the rows whose first number is positive: none in process 0."""
    rows = layer(x)[x[:, 0] > 0]
    return {"loss": global_mean(rows.square().sum(), len(rows))}


def unmasking(layer: nn.Module, x: torch.Tensor, y: torch.Tensor) -> Terms:
    chosen = x[:, 0] > 0
    assert isinstance(layer, nn.Linear)
    labels = y[chosen].argmax(dim=1)
    return {"loss": losses.unmasking(x[chosen], layer.weight, layer.bias, labels)}


def koleo(layer: nn.Module, x: torch.Tensor, y: torch.Tensor) -> Terms:
    return {"loss": losses.koleo(all_rows(layer(y)), all_rows(x[:, 0].long()))}


LOSSES = {f.__name__: f for f in (contrastive, token_mean, unmasking, koleo)}


def data() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    x, y = (torch.randn(sum(ROWS), 6, generator=generator) for _ in "xy")
    x[: ROWS[0], 0] = -torch.arange(1.0, ROWS[0] + 1)
    x[ROWS[0] :, 0] = torch.arange(ROWS[0], sum(ROWS))
    x[-1, 0] = -1.0  # the identity of a row of the other process, and chosen in neither
    return x, y


def outcome(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> Terms:
    """Terms of two passes whose gradients add up, and the gradients."""
    terms = model(x, y)
    (3 * terms["loss"]).backward()
    model(2 * x, y)["loss"].backward()
    gradients = {name.removeprefix("module."): p.grad for name, p in model.named_parameters()}
    return {name: value.detach() for name, value in (terms | gradients).items()}


def one_process(rank: int, folder: str, name: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    start, end = (0, ROWS[0]) if rank == 0 else (ROWS[0], sum(ROWS))
    x, y = (side[start:end] for side in data())
    model = DistributedDataParallel(Wrapped(LOSSES[name]))
    torch.save(outcome(model, x, y), f"{folder}/{rank}.pt")
    dist.barrier()  # neither leaves before the other has read what it sent
    dist.destroy_process_group()


@pytest.mark.parametrize("name", LOSSES)
def test_two_processes_are_one_with_all_rows(name: str, tmp_path: Path) -> None:
    expected = outcome(Wrapped(LOSSES[name]), *data())
    mp.spawn(one_process, (str(tmp_path), name), nprocs=2)
    assert expected["layer.weight"].abs().max() > 0.01
    for rank in (0, 1):
        got = torch.load(tmp_path / f"{rank}.pt")
        assert got.keys() == expected.keys()
        for key, value in expected.items():
            torch.testing.assert_close(got[key], value, msg=lambda text, key=key: f"{key}: {text}")


def test_alone_nothing_is_sent() -> None:
    x = torch.randn(3, 2, requires_grad=True)
    assert all_rows(x) is x
    assert float(global_mean(x.sum(), 3).detach()) == pytest.approx(float(x.sum().detach()) / 3)
    assert float(global_mean(torch.zeros(()), 0)) == 0
