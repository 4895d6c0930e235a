"""A run that is killed or stopped, wherever, and goes on as if it never had been."""

from __future__ import annotations

import json
import signal
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import torch

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.stages.train.train import train
from mexma_cli.training import trainer
from tests.processes import MEXMA, SLOW_STEPS, Program
from tests.stages.train.training import BAG_STEPS, MEXMA_STEPS, log_of, settings, weights


def started(recipe_file: Path, run: Path, *arguments: str) -> Program:
    return Program(SLOW_STEPS + MEXMA, "train", recipe_file, "--set", f"run={run}", *arguments)


def wait_for(run: Path, phase: str, step: int, process: Program) -> None:
    """Until the log has that step; a run that ended before is a failure."""

    def logged() -> bool:
        if not (run / "log.jsonl").is_file():
            return False
        whole = (run / "log.jsonl").read_text().split("\n")[:-1]
        return any((r["phase"], r["step"]) == (phase, step) for r in map(json.loads, whole))

    process.until(logged)


@pytest.mark.parametrize("precision", ["fp32", pytest.param("bf16", marks=pytest.mark.slow)])
def test_killed_and_resumed_is_the_run_that_would_have_been(
    precision: str, finished: dict[str, Path], recipe_file: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    chosen = f"trainer.precision={precision}"
    process = started(recipe_file, run, "--set", chosen)
    wait_for(run, "mexma", 7, process)  # the last checkpoint is at 5
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert not (run / "encoder").exists()
    assert max(record["step"] for record in log_of(run) if record["phase"] == "mexma") >= 7
    steps: list[int] = []
    train(
        settings(recipe_file, run, chosen),
        resume=True,
        on_phase=lambda phase, step, encoder: steps.append(step),
    )
    assert steps == [5]  # the phase bag was finished and is not run again
    assert log_of(run) == log_of(finished[precision])
    assert weights(run) == weights(finished[precision])


@pytest.mark.slow
def test_another_precision_from_here_on(recipe_file: Path, tmp_path: Path) -> None:
    """Also fp16, which has a state that the others lack: the scale of its loss."""
    run = tmp_path / "run"
    for precision in ("fp32", "fp16", "bf16"):
        asked = iter([False, True])  # stopped after two steps
        chosen = settings(recipe_file, run, f"trainer.precision={precision}")
        assert train(chosen, resume=run.exists(), stopped=partial(next, asked)) is None
    assert train(settings(recipe_file, run, "trainer.precision=auto"), resume=True) is not None
    assert len(log_of(run)) == BAG_STEPS + MEXMA_STEPS


def test_sigterm_writes_a_checkpoint_and_resuming_goes_on_there(
    finished: dict[str, Path], recipe_file: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    process = started(recipe_file, run, "--set", "trainer.precision=fp32")
    wait_for(run, "mexma", 7, process)
    process.send_signal(signal.SIGTERM)
    stdout, stderr = process.communicate()
    assert process.returncode == 128 + signal.SIGTERM, stderr
    go_on = f"stopped; `mexma train {run / 'recipe.yaml'} --resume` goes on from the last checkpoint\n"
    assert stdout == "" and stderr.endswith(go_on)
    last = log_of(run)[-1]["step"]
    checkpoints = sorted(path.name for path in (run / "mexma" / "checkpoints").iterdir())
    assert checkpoints[-1] == f"step-{last:08d}"
    assert train(settings(recipe_file, run, "trainer.precision=fp32"), resume=True) == run / "encoder"
    assert log_of(run) == log_of(finished["fp32"])
    assert weights(run) == weights(finished["fp32"])


@pytest.mark.slow
def test_stopped_at_every_step_is_the_run_that_would_have_been(
    finished: dict[str, Path], recipe_file: Path, tmp_path: Path
) -> None:
    recipe = settings(recipe_file, tmp_path / "run")
    for _ in range(BAG_STEPS + MEXMA_STEPS + 2):
        if train(recipe, resume=True, stopped=lambda: True) is not None:
            break
    else:
        pytest.fail("it never came to an end")
    assert log_of(tmp_path / "run") == log_of(finished["fp32"])
    assert weights(tmp_path / "run") == weights(finished["fp32"])


@pytest.mark.slow
def test_slow_steps_that_are_given_up_leave_the_run_that_would_have_been(
    recipe_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trainer, "PATIENCE", -1.0)  # as if every step were slow
    chosen = "phases.bag.objective.whitening=0.5"  # which it learns while it trains, in a buffer
    train(settings(recipe_file, tmp_path / "whole", chosen))
    recipe = settings(recipe_file, tmp_path / "run", chosen)
    stops = 0
    while train(recipe, resume=True, stopped=partial(next, (n == 7 for n in count()))) is None:
        stops += 1  # in every third step: between forward and backward, after backward, after the step
        assert stops < BAG_STEPS + MEXMA_STEPS
    assert stops >= (BAG_STEPS + MEXMA_STEPS) // 3
    assert log_of(tmp_path / "run") == log_of(tmp_path / "whole")
    assert weights(tmp_path / "run") == weights(tmp_path / "whole")


@pytest.mark.parametrize("written", [1, *(pytest.param(n, marks=pytest.mark.slow) for n in (0, 2))])
def test_killed_between_the_last_step_and_the_encoder(
    written: int,
    finished: dict[str, Path],
    recipe_file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Encoders are written after each phase and at the end; the run dies before the n-th of them."""
    save, done = SentenceEncoder.save, [0]

    def dying(self: SentenceEncoder, path: Path) -> None:
        if done[0] == written:
            path.with_name("encoder.partial").mkdir()
            path.with_name("encoder.partial").joinpath(".mexma").touch()
            raise KeyboardInterrupt
        done[0] += 1
        save(self, path)

    monkeypatch.setattr(SentenceEncoder, "save", dying)
    recipe = settings(recipe_file, tmp_path / "run")
    with pytest.raises(KeyboardInterrupt):
        train(recipe)
    monkeypatch.undo()
    checkpoints = tmp_path / "run" / ("bag", "mexma", "mexma")[written] / "checkpoints"
    if written < 2:  # no step is left, after which it would go
        (checkpoints / "step-00000001").mkdir()
    torch.manual_seed(12345)  # another process has another state
    train(recipe, resume=True)
    assert not list((tmp_path / "run").rglob("*.partial"))
    assert len(list(checkpoints.iterdir())) == recipe.phases[0].trainer.keep == 2
    assert log_of(tmp_path / "run") == log_of(finished["fp32"])
    assert weights(tmp_path / "run") == weights(finished["fp32"])


@pytest.mark.parametrize(("phase", "step"), [pytest.param("bag", 2, marks=pytest.mark.slow), ("mexma", 3)])
def test_killed_before_a_phases_first_checkpoint(
    phase: str, step: int, finished: dict[str, Path], recipe_file: Path, tmp_path: Path
) -> None:
    begun: list[str] = []

    def die(record: dict[str, Any]) -> None:
        if (begun[-1], record["step"]) == (phase, step):
            raise KeyboardInterrupt

    recipe = settings(recipe_file, tmp_path / "run")
    with pytest.raises(KeyboardInterrupt):
        train(recipe, on_phase=lambda phase, step, encoder: begun.append(phase.name), on_step=die)
    torch.manual_seed(12345)  # another process has another state
    train(recipe, resume=True)
    assert log_of(tmp_path / "run") == log_of(finished["fp32"])
    assert weights(tmp_path / "run") == weights(finished["fp32"])
