"""Two processes, averaged as DDP averages, train what one process with all rows trains."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.objectives import losses
from mexma_cli.objectives.bag.loss import Bag
from mexma_cli.objectives.base import Objective, Start
from mexma_cli.objectives.clft.loss import Clft
from mexma_cli.objectives.gather import all_rows, global_mean
from mexma_cli.objectives.views import TokenPairs
from mexma_cli.settings.registry import ObjectiveSettings
from tests.objectives.pairs import token_ids
from tests.processes import in_two_processes

ROWS = (2, 5)
"""Of process 0 and of process 1: not the same."""
Terms = dict[str, torch.Tensor]
Sentences = dict[str, list[str]]
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


HEAD = {"layers": 1, "heads": 2, "ffn": 32}
OBJECTIVES: dict[str, dict[str, Any]] = {
    "baseline": {"name": "contrastive", "temperature": 0.2, "hard_negatives": 0.4},
    "one side": {"name": "mexma", "symmetric": False, "alpha": 0, "gamma": 0, "head": HEAD},
    "everything": {
        "name": "mexma",
        "align": "masked",
        "contrastive": 0.5,
        "koleo_global": True,
        "gamma": 0.2,
        "head": HEAD,
    },
    "bag": {"name": "bag", "temperature": 0.2, "ngrams": [2, 3], "width": 40},
    "tr": {"name": "contrastive", "direction": "forward", "projection": "tanh", "tlm": {"masking": 0.3}},
    "dap": {"name": "dap", "rtl": {"ratio": 0.6}},
    "dap both": {"name": "dap", "rtl": {"direction": "both", "layers": 1}},
    "clft": {"name": "clft"},
}


def made(name: str, encoder: SentenceEncoder) -> Objective:
    """An objective by its name above, the same in every process."""
    torch.manual_seed(0)
    chosen = ObjectiveSettings.chosen(OBJECTIVES[name])
    start = Start(encoder, languages=3)
    objective: Objective = chosen.losses().build(start, chosen)
    if isinstance(objective, Clft):
        with torch.no_grad():
            objective.teacher.model.get_input_embeddings().weight.mul_(1.5)
    return objective


def moment(encoder: str, sentences: Sentences, pairs: slice) -> torch.Tensor:
    """The second moment of sentence vectors after a step of training on some of the eight pairs."""
    bag = made("bag", SentenceEncoder.load(encoder, "cpu"))
    assert isinstance(bag, Bag) and bag.training
    bag(bag.batch(TokenPairs(token_ids(bag.encoder, sentences)[pairs])))
    assert bag.moment is not None
    return bag.moment


def gradients(
    encoder: str, sentences: Sentences, name: str, pairs: slice, wrap: Callable[[nn.Module], nn.Module]
) -> Terms:
    """Terms and gradients of an objective on some of the eight pairs."""
    objective = made(name, SentenceEncoder.load(encoder, "cpu")).eval()  # no dropout
    ids, languages = token_ids(objective.encoder, sentences)[pairs], (np.arange(8) % 3)[pairs]
    negatives = [[source] * (row % 3) for row, (source, _) in enumerate(ids, pairs.start)]
    views = objective.batch(
        TokenPairs(
            ids,
            start=pairs.start,
            languages=languages,
            extra={part: negatives for part in objective.takes},
        )
    )
    terms: Terms = wrap(objective)(views)
    torch.stack([objective.weights[key] * term for key, term in terms.items()]).sum().backward()
    found = {key: p.grad for key, p in objective.named_parameters() if p.grad is not None}
    return {key: value.detach().to_dense() for key, value in (terms | found).items()}


def one_process(rank: int, folder: str, encoder: str, sentences: Sentences) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    start, end = (0, ROWS[0]) if rank == 0 else (ROWS[0], sum(ROWS))
    x, y = (side[start:end] for side in data())
    found = {name: outcome(DistributedDataParallel(Wrapped(loss)), x, y) for name, loss in LOSSES.items()}
    half = slice(4 * rank, 4 * rank + 4)
    for name in OBJECTIVES:
        found[name] = gradients(encoder, sentences, name, half, DistributedDataParallel)
    found["moment"] = {"moment": moment(encoder, sentences, half)}
    torch.save(found, f"{folder}/{rank}.pt")
    dist.barrier()  # neither leaves before the other has read what it sent
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def found(
    tmp_path_factory: pytest.TempPathFactory, tiny_encoder: Path, sentences: Sentences
) -> list[dict[str, Terms]]:
    """What each of two processes has: terms and gradients of every loss and objective."""
    folder = tmp_path_factory.mktemp("processes")
    in_two_processes(one_process, str(folder), str(tiny_encoder), sentences)
    return [torch.load(folder / f"{rank}.pt") for rank in (0, 1)]


@pytest.mark.parametrize("name", LOSSES)
def test_two_processes_are_one_with_all_rows(name: str, found: list[dict[str, Terms]]) -> None:
    expected = outcome(Wrapped(LOSSES[name]), *data())
    assert expected["layer.weight"].abs().max() > 0.01
    for process in found:
        assert process[name].keys() == expected.keys()
        for key, value in expected.items():
            torch.testing.assert_close(process[name][key], value, msg=lambda text, key=key: f"{key}: {text}")


@pytest.mark.parametrize("name", OBJECTIVES)
def test_objectives_in_two_processes(
    name: str, found: list[dict[str, Terms]], tiny_encoder: Path, sentences: Sentences
) -> None:
    expected = gradients(str(tiny_encoder), sentences, name, slice(0, 8), lambda objective: objective)
    for key, value in expected.items():
        got = (found[0][name][key] + found[1][name][key]) / 2  # of a gradient, two equal numbers
        torch.testing.assert_close(
            got, value, rtol=1e-4, atol=1e-6, msg=lambda text, key=key: f"{key}: {text}"
        )


def test_the_directions_of_most_variance_are_those_of_all_processes(
    found: list[dict[str, Terms]], tiny_encoder: Path, sentences: Sentences
) -> None:
    halves = [moment(str(tiny_encoder), sentences, slice(start, start + 4)) for start in (0, 4)]
    assert not torch.allclose(*halves)
    for process in found:
        torch.testing.assert_close(process["moment"]["moment"], (halves[0] + halves[1]) / 2)


def test_alone_nothing_is_sent() -> None:
    x = torch.randn(3, 2, requires_grad=True)
    assert all_rows(x) is x
    assert float(global_mean(x.sum(), 3).detach()) == pytest.approx(float(x.sum().detach()) / 3)
    assert float(global_mean(torch.zeros(()), 0)) == 0
