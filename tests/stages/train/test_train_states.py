"""What a run keeps: the best weights, the state before a loss that is none, and what does not fit it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.errors import MexmaError
from mexma_cli.objectives.mexma.loss import Mexma
from mexma_cli.settings.load import load
from mexma_cli.stages.prepare.prepare import prepare
from mexma_cli.stages.train.train import train
from mexma_cli.training import checkpoint, distributed
from tests.examples import tiny_recipe

STEPS = 6


@pytest.fixture(scope="module")
def recipe_file(tmp_path_factory: pytest.TempPathFactory, sentences: dict[str, list[str]]) -> Path:
    folder = tmp_path_factory.mktemp("states")
    keys = {
        "objective": {"name": "mexma", "head": {"layers": 1, "heads": 2, "ffn": 32}},
        "trainer": {"steps": STEPS, "batch_pairs": 4, "log_every": 1, "device": "cpu", "keep": 1},
    }
    path = tiny_recipe(folder, sentences, keys)
    prepare(load(path))
    return path


def scores(*errors: float) -> Any:
    """A dev score that says these, one after the other."""
    told = iter(errors)
    return lambda encoder: {"xsim": next(told)}


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return SentenceEncoder.load(str(folder), "cpu").model.state_dict()


@pytest.mark.parametrize(("export", "step"), [("best", 4), pytest.param("last", 6, marks=pytest.mark.slow)])
def test_the_best_or_the_last_weights_are_exported(
    export: str, step: int, recipe_file: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    recipe = load(recipe_file, [f"run={run}", "trainer.dev_every=2", f"trainer.export={export}"])
    train(recipe, dev_score=scores(30.0, 10.0, 20.0))
    checkpoints = run / "train" / "checkpoints"
    assert sorted(path.name for path in checkpoints.iterdir()) == ["best", "step-00000006"]
    best = checkpoint.load(checkpoints / "best")
    assert (best.step, best.best) == (4, 10.0)
    source = best if step == 4 else checkpoint.load(checkpoints / "step-00000006")
    exported = weights(run / "encoder")
    name = "encoder.layer.0.output.dense.weight"
    assert torch.equal(exported[name], source.objective[f"model.{name}"])
    other = checkpoint.load(checkpoints / "step-00000006") if step == 4 else best
    assert not torch.equal(exported[name], other.objective[f"model.{name}"])


@pytest.mark.slow
def test_a_dev_score_sees_the_weights_of_its_step(recipe_file: Path, tmp_path: Path) -> None:
    """All of them, in the last score and in those before it."""
    seen: list[np.ndarray] = []
    texts = ["Un exemple.", "One more sentence."]

    def score(encoder: SentenceEncoder) -> dict[str, float]:
        seen.append(encoder.embed(texts))
        return {"xsim": float(-len(seen))}

    recipe = load(recipe_file, [f"run={tmp_path / 'run'}", "trainer.dev_every=2", "trainer.keep=9"])
    train(recipe, dev_score=score)
    np.testing.assert_array_equal(
        seen[-1], SentenceEncoder.load(str(tmp_path / "run" / "encoder"), "cpu").embed(texts)
    )
    assert all(np.abs(one - other).max() > 1e-4 for one, other in pairwise(seen))


@pytest.mark.slow
def test_the_best_score_is_known_after_a_resume(recipe_file: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    recipe = load(recipe_file, [f"run={run}", "trainer.dev_every=2", "trainer.export=best"])
    asked: Iterator[int] = iter(range(1, STEPS))
    assert train(recipe, dev_score=scores(10.0), stopped=lambda: next(asked) == 3) is None
    train(recipe, resume=True, dev_score=scores(20.0, 15.0))
    assert checkpoint.load(run / "train" / "checkpoints" / "best").step == 2


def test_the_best_without_a_dev_set(recipe_file: Path, tmp_path: Path) -> None:
    recipe = load(recipe_file, [f"run={tmp_path / 'run'}", "trainer.export=best"])
    with pytest.raises(MexmaError, match="no `dev` set to tell which is"):
        train(recipe)
    assert not (tmp_path / "run").exists()


@pytest.fixture
def poisoned(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """In the 8th micro-batch (step 4 of two each, the second one) what is named here is no number.

    `gradients`: from then on.
    """
    forward, count, what = Mexma.forward, [0], [""]

    def broken(self: Mexma, views: Any) -> dict[str, torch.Tensor]:
        terms = forward(self, views)
        count[0] += self.training
        if count[0] == 8 and what[0] == "loss":
            terms["alignment"] = terms["alignment"] * torch.nan
        if (count[0] == 8 and what[0] == "gradient") or (count[0] >= 8 and what[0] == "gradients"):
            terms["alignment"].register_hook(lambda gradient: gradient * torch.inf)
        return terms

    monkeypatch.setattr(Mexma, "forward", broken)
    return what


@pytest.mark.parametrize("what", ["loss", pytest.param("gradient", marks=pytest.mark.slow)])
def test_what_is_no_number_stops_the_run_with_its_pairs_and_the_state_before(
    what: str, poisoned: list[str], recipe_file: Path, tmp_path: Path
) -> None:
    whole, run = tmp_path / "whole", tmp_path / "run"
    overrides = ["trainer.steps=6", "trainer.checkpoint_every=3", "trainer.keep=2", "dev=null"]
    poisoned[0] = what
    with pytest.raises(MexmaError, match=r"at step 4, micro-batch") as caught:
        train(load(recipe_file, [f"run={run}", *overrides]))
    assert not (run / "encoder").exists()
    poisoned[0] = ""
    report = json.loads((run / "train" / "not-a-number.json").read_text())
    assert report["step"] == 4
    # Where the loss is a number and its gradient is none, any of the step's batches may be to blame.
    assert [b["micro_batch"] for b in report["batches"]] == ([1] if what == "loss" else [0, 1])
    names = report["batches"][0]["pairs"]
    assert len(names) == 4 and all(re.fullmatch(r"own/fra_Latn:[0-7]", name) for name in names)
    assert names[0] in caught.value.message
    last = checkpoint.found(run / "train" / "checkpoints")[-1]
    assert last.name == "step-00000003" and str(last) in str(caught.value.hint)
    # From that state the run goes on as if nothing had been.
    train(load(recipe_file, [f"run={run}", *overrides]), resume=True)
    train(load(recipe_file, [f"run={whole}", *overrides]))
    mended, other = weights(run / "encoder"), weights(whole / "encoder")
    assert all(torch.equal(mended[name], other[name]) for name in other)


def test_in_fp16_a_gradient_that_overflows_is_skipped(
    poisoned: list[str], recipe_file: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    poisoned[0] = "gradient"
    train(load(recipe_file, [f"run={run}", "trainer.precision=fp16", "dev=null"]))
    records = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    assert records[3]["gradient_norm"] is None
    assert [record["step"] for record in records] == list(range(1, STEPS + 1))
    assert np.isfinite([record["loss"] for record in records]).all()


@pytest.mark.slow
def test_in_fp16_gradients_that_overflow_with_every_scale_stop_the_run(
    poisoned: list[str], recipe_file: Path, tmp_path: Path
) -> None:
    """Nothing would be trained any more."""
    poisoned[0] = "gradients"
    overrides = [f"run={tmp_path / 'run'}", "trainer.precision=fp16", "trainer.steps=60", "dev=null"]
    with pytest.raises(MexmaError, match=r"the gradient's norm is (inf|nan) at step 3\d, micro-batch"):
        train(load(recipe_file, overrides))


def test_a_checkpoint_of_another_shape_is_named(recipe_file: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    recipe = load(recipe_file, [f"run={run}"])
    assert train(recipe, dev_score=None, stopped=lambda: True) is None
    (last,) = checkpoint.found(run / "train" / "checkpoints")
    state = checkpoint.load(last)
    state.objective["head.bias"] = torch.zeros(7)
    checkpoint.save(last.parent, state, 1)
    with pytest.raises(MexmaError, match=r"another shape: head\.bias is \[7\] there, and \[\d+\] in this"):
        train(recipe, resume=True)


def test_the_log_in_tensorboard_too(recipe_file: Path, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    run = tmp_path / "run"
    train(load(recipe_file, [f"run={run}", "trainer.steps=2", "trainer.loggers=[tensorboard]", "dev=null"]))
    assert list((run / "tensorboard" / "train").glob("events.out.tfevents.*"))
    assert (run / "log.jsonl").read_text().count("\n") == 2


def test_activation_checkpointing_is_the_same_run(
    recipe_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forgotten = Mock(wraps=distributed.checkpoint)
    monkeypatch.setattr(distributed, "checkpoint", forgotten)
    for name in ("false", "true"):
        assert not forgotten.called
        override = f"trainer.activation_checkpointing={name}"
        train(load(recipe_file, [f"run={tmp_path / name}", "trainer.steps=3", override, "dev=null"]))
    assert forgotten.called
    one, two = weights(tmp_path / "false" / "encoder"), weights(tmp_path / "true" / "encoder")
    assert all(torch.equal(one[name], two[name]) for name in one)
