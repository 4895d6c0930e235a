"""The decomposers' data and loop: the cut, the order, whose turn it is, the end, and going on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mexma_cli.errors import MexmaError
from mexma_cli.objectives.decompose.loss import Decomposer
from mexma_cli.settings.registry import DecomposerSettings
from mexma_cli.settings.training import DecomposeTrainerSettings
from mexma_cli.store.embeddings import EmbeddingStore, StorePair
from mexma_cli.training.decomposing import DecomposerTraining, StoredPairs
from mexma_cli.training.log import TrainingLog

DIM = 6
ROWS = {"fra_Latn": 40, "deu_Latn": 23}
MEAT = {"name": "meat", "intra_class": 1.0, "inter_class": 1.0}
Make = Callable[..., Path]


def vectors(language: str, side: int) -> np.ndarray:
    """Row n's first number is n; the second tells the language and the side."""
    found = np.random.default_rng(len(language) + side).normal(size=(ROWS[language], DIM)).astype(np.float32)
    found[:, 0] = np.arange(ROWS[language])
    found[:, 1] = 10 * sorted(ROWS).index(language) + side
    return found


@pytest.fixture
def stores(tmp_path: Path, make_store: Make) -> list[StorePair]:
    pairs = []
    for language in ROWS:
        source = make_store(tmp_path / f"{language}.eng.emb", vectors(language, 0), "eng_Latn")
        target = make_store(tmp_path / f"{language}.emb", vectors(language, 1), language)
        pairs.append((EmbeddingStore.open(source), EmbeddingStore.open(target)))
    return pairs


def rows_of(pairs: Any) -> list[tuple[int, int]]:
    """(store, row) of every pair of a batch; both sides must agree."""
    numbers, kinds = pairs.source[:, 0].int().tolist(), pairs.source[:, 1].int().tolist()
    assert pairs.target[:, 0].int().tolist() == numbers
    assert [kind + 1 for kind in kinds] == pairs.target[:, 1].int().tolist()
    return list(zip(kinds, numbers, strict=True))


def test_every_pair_is_trained_on_or_held_out(stores: Any) -> None:
    data = StoredPairs(stores, 0, 0.1, 42)
    assert data.languages == ["deu_Latn", "eng_Latn", "fra_Latn"]
    assert (data.trained, data.held_out, data.dim) == (36 + 21, 4 + 2, DIM)
    trained = rows_of(data.training(0, 0, data.trained))
    held = rows_of(data.validation(0, data.held_out))
    everything = [(10 * sorted(ROWS).index(lang), row) for lang in ROWS for row in range(ROWS[lang])]
    assert sorted(trained + held) == sorted(everything)
    pairs = data.training(0, 0, data.trained)
    assert set(pairs.source_language.tolist()) == {1}
    assert [0 if kind == 0 else 2 for kind, _ in trained] == pairs.target_language.tolist()


def test_epochs_differ_and_batches_are_parts_of_them(stores: Any) -> None:
    data = StoredPairs(stores, 0, 0.1, 42)
    whole = rows_of(data.training(1, 0, data.trained))
    assert rows_of(data.training(1, 5, 17)) == whole[5:17]
    other = rows_of(data.training(0, 0, data.trained))
    assert sorted(other) == sorted(whole) and other != whole
    assert len({kind for kind, _ in whole[:10]}) == 2  # languages are mixed


def test_the_first_rows_alone(stores: Any) -> None:
    data = StoredPairs(stores, 25, 0.2, 42)
    assert (data.trained, data.held_out) == (20 + 18, 5 + 5)
    assert max(row for _, row in rows_of(data.training(0, 0, 38)) + rows_of(data.validation(0, 10))) == 24


def training(stores: Any, folder: Path, objective: Any = MEAT, **other: Any) -> DecomposerTraining:
    settings = {"batch": 16, "epochs": 4, "learning_rate": 0.01, "device": "cpu", **other}
    data = StoredPairs(stores, 0, 0.1, 42)
    torch.manual_seed(0)
    chosen = DecomposerSettings.chosen(objective)
    maps: Decomposer = chosen.losses()(DIM, len(data.languages), chosen)
    device = torch.device("cpu")
    return DecomposerTraining(maps, data, DecomposeTrainerSettings.model_validate(settings), folder, device)


def test_a_step_is_the_adversarys_and_then_the_maps(stores: Any, tmp_path: Path) -> None:
    """The maps' loss is that of the adversary after its turn; each has an Adam of its own."""
    run = training(stores, tmp_path / "c")
    reference = training(stores, tmp_path / "d").objective
    pairs = run.pairs.training(0, 0, 16)
    adversary, maps = reference.players()
    for player in (adversary, maps):
        adam = torch.optim.Adam(player.parameters, lr=0.01)
        reference.zero_grad()
        reference.loss(player.terms(pairs)).backward()
        adam.step()
    run._one_step()
    for name, parameter in run.objective.named_parameters():
        torch.testing.assert_close(parameter, reference.get_parameter(name), msg=name)


def test_it_learns_and_its_log_says_so(stores: Any, tmp_path: Path) -> None:
    run = training(stores, tmp_path / "c", epochs=12)
    before = run.validation_loss()
    records: list[dict[str, Any]] = []
    assert run.run(TrainingLog(tmp_path / "log.jsonl", "train", 0), records.append)
    assert run.step == 12 * 3 and [record["epoch"] for record in records] == list(range(1, 13))
    assert run.best is not None and run.best < before
    assert records[0]["terms"].keys() == {
        *("adversary", "reconstruction", "cross_reconstruction", "language", "adversarial"),
        *("intra_class", "inter_class"),
    }
    run.go_to_best()
    assert run.validation_loss() == pytest.approx(run.best)


def test_it_ends_when_nothing_gets_better(stores: Any, tmp_path: Path) -> None:
    run = training(stores, tmp_path / "c", epochs=1000, patience=2, learning_rate=1.0)
    records: list[dict[str, Any]] = []
    assert run.run(TrainingLog(tmp_path / "log.jsonl", "train", 0), records.append)
    losses = [record["validation_loss"] for record in records]
    best = losses.index(min(losses))
    assert len(losses) == best + 1 + 2 < 1000
    run.go_to_best()
    assert run.validation_loss() == pytest.approx(min(losses))


@pytest.mark.parametrize("name", ["meat", "dream"])
@pytest.mark.parametrize("stop", [4, 6], ids=["within an epoch", "at an epoch's end"])
def test_a_stopped_run_goes_on_as_if_it_had_not_been(
    stop: int, name: str, stores: Any, tmp_path: Path
) -> None:
    objective = {"name": name, "intra_class": 1.0}
    whole = training(stores, tmp_path / "whole", objective)
    whole.run(TrainingLog(tmp_path / "whole.jsonl", "train", 0))
    first = training(stores, tmp_path / "c", objective)
    assert not first.run(TrainingLog(tmp_path / "log.jsonl", "train", 0), stopped=lambda: first.step >= stop)
    second = training(stores, tmp_path / "c", objective)
    assert second.resume() == stop
    assert second.run(TrainingLog(tmp_path / "log.jsonl", "train", stop))
    assert second.best == whole.best
    for key, value in whole.objective.state_dict().items():
        assert torch.equal(value, second.objective.state_dict()[key]), key

    def without_time(log: Path) -> list[str]:
        return [line.split(', "seconds"')[0] for line in log.read_text().splitlines()]

    assert without_time(tmp_path / "log.jsonl") == without_time(tmp_path / "whole.jsonl")


def test_too_few_pairs(stores: Any, tmp_path: Path) -> None:
    with pytest.raises(MexmaError, match="57 pairs to train on and 6 held out are too few"):
        training(stores, tmp_path / "c", batch=64)


def test_a_loss_that_is_no_number(stores: Any, tmp_path: Path) -> None:
    run = training(stores, tmp_path / "c")
    with torch.no_grad():
        run.objective.meaning.weight.fill_(float("nan"))
    with pytest.raises(MexmaError, match="the loss of the adversary is nan at step 1"):
        run.run(TrainingLog(tmp_path / "log.jsonl", "train", 0))


def test_a_validation_loss_that_is_no_number(stores: Any, tmp_path: Path) -> None:
    """The last step's rate was too high: there would be no best epoch, or it would be this one."""
    run = training(stores, tmp_path / "c", {"name": "dream"}, batch=32, epochs=1, learning_rate=1e30)
    with pytest.raises(MexmaError, match=r"held out is (nan|inf) after step 1"):
        run.run(TrainingLog(tmp_path / "log.jsonl", "train", 0))
