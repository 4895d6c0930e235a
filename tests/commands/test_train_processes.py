"""`mexma train` in several processes: the run that one process with all the pairs would have been.

Two gloo processes on the processor, a tiny encoder, and no dropout, since each process draws its own.
"""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file
from torch.distributed.launcher.api import LaunchConfig

from mexma_cli.errors import MexmaError
from mexma_cli.settings.load import load
from mexma_cli.stages.train.train import train
from tests import command
from tests.command import fails
from tests.examples import demo_pairs, prepared
from tests.processes import MEXMA, SLOW_STEPS, Program, forks_of_launchers, together, wait_until

STEPS = 6
DEV = "dev={path: dev.spa, target_path: dev.eng, languages: [spa_Latn]}"
WAIT = 120
"""Seconds after which a process that does not come to an end is a failure."""


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """60 pairs and one phase of MEXMA whose terms are all taken over all processes."""
    folder = tmp_path_factory.mktemp("processes")
    lines = demo_pairs(60)
    for column, name in enumerate(("spa", "eng")):
        text = "".join(line.split("\t")[column] + "\n" for line in lines[:20])
        (folder / f"dev.{name}").write_text(text, encoding="utf-8")
    keys = {
        "encoder": {
            "new": {"layers": 2, "width": 32, "heads": 2, "ffn": 64, "dropout": 0.0},
            "tokenizer": {"vocabulary": 400},
        },
        "objective": {
            "name": "mexma",
            "gamma": 1e-5,  # so new an encoder's vectors hardly differ: rounding decides who is nearest
            "koleo_global": True,
            "contrastive": 0.5,
            "gather": True,
            "head": {"layers": 1, "heads": 2, "ffn": 64, "dropout": 0.0},
        },
        "trainer": {
            "steps": STEPS,
            "batch_pairs": 4,
            "learning_rate": 0.003,
            "eps": 0.001,  # at the usual 1e-8 a gradient that is nothing but rounding makes a whole step
            "average": 0.9,
            "log_every": 1,
            "checkpoint_every": 2,
            "device": "cpu",
        },
    }
    return prepared(folder, lines, keys)


@pytest.fixture(scope="module")
def alone(recipe: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run in one process, with twice the batch."""
    run = tmp_path_factory.mktemp("alone") / "run"
    train(load(recipe, [f"run={run}", "trainer.batch_pairs=8"]))
    return run


def flags(*overrides: str) -> list[str]:
    return [part for override in overrides for part in ("--set", override)]


def ended(processes: list[Program]) -> tuple[list[int], str, str]:
    """Exit codes, and what both wrote to stdout and to stderr."""
    said = [process.communicate(WAIT) for process in processes]
    return [process.wait() for process in processes], *("".join(texts) for texts in zip(*said, strict=True))


def log_of(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]


def assert_same_run(run: Path, other: Path, rel: float = 1e-5) -> None:
    records, expected = log_of(run), log_of(other)
    assert [record["step"] for record in records] == list(range(1, STEPS + 1))
    for here, there in zip(records, expected, strict=True):
        assert here["pairs"] == there["pairs"]
        assert here["loss"] == pytest.approx(there["loss"], rel=rel)
        koleo = here["terms"].pop("koleo"), there["terms"].pop("koleo")
        assert koleo[0] == pytest.approx(koleo[1], rel=1e-3)
        assert here["terms"] == pytest.approx(there["terms"], rel=rel, abs=1e-6)
        assert here["gradient_norm"] == pytest.approx(there["gradient_norm"], rel=10 * rel)
    ours, theirs = (load_file(folder / "encoder" / "model.safetensors") for folder in (run, other))
    assert ours.keys() == theirs.keys()
    for name, value in theirs.items():
        assert (ours[name] - value).norm() <= 1e-3 * value.norm() + 1e-6, name


@pytest.mark.slow
@pytest.mark.parametrize("overrides", [(), ("trainer.sharding=full", "trainer.dev_every=2", DEV)])
def test_two_processes_are_one_with_twice_the_batch(
    overrides: tuple[str, ...], recipe: Path, alone: Path, tmp_path: Path
) -> None:
    """Also where each holds half of every weight; what is on the disk in the end is whole."""
    run = tmp_path / "run"
    codes, stdout, stderr = ended(together(MEXMA, "train", recipe, *flags(f"run={run}", *overrides)))
    assert codes == [0, 0] and stdout == f"{run / 'encoder'}\n", stderr
    assert_same_run(run, alone)
    assert [record["step"] for record in log_of(run) if "dev" in record] == ([2, 4, 6] if overrides else [])
    assert log_of(alone)[-1]["loss"] < log_of(alone)[0]["loss"]


STOPPING = """
import sys
from mexma_cli.errors import MexmaError
from mexma_cli.main import cli
from mexma_cli.settings.load import load
from mexma_cli.stages.train.train import train
from mexma_cli.training.distributed import Processes

with Processes.joined() as processes:
    asked = [0]
    def stopped():
        asked[0] += 1
        return processes.rank == 1 and asked[0] == int(sys.argv[1])
    train(load(sys.argv[2], sys.argv[3:]), resume=True, stopped=stopped, processes=processes)
"""
"""The second of the processes wants to stop after so many steps."""


@pytest.mark.slow
def test_from_two_processes_to_one_and_back(recipe: Path, alone: Path, tmp_path: Path) -> None:
    """Two processes, one, two that share the weights, one: stopped in between by one of them."""
    run = tmp_path / "run"

    def both(steps: int, *overrides: str) -> None:
        codes, _, stderr = ended(together(STOPPING, str(steps), recipe, f"run={run}", *overrides))
        assert codes == [0, 0], stderr

    def single(steps: int) -> None:
        asked = iter(range(1, STEPS + 1))
        chosen = load(recipe, [f"run={run}", "trainer.batch_pairs=8"])
        train(chosen, resume=True, stopped=lambda: next(asked) == steps)

    both(2)
    assert steps_of(run) == 2
    single(1)
    assert steps_of(run) == 3
    both(2, "trainer.sharding=full")
    assert steps_of(run) == 5
    single(STEPS)
    assert_same_run(run, alone)


def steps_of(run: Path) -> int:
    return int(sorted((run / "train" / "checkpoints").iterdir())[-1].name.removeprefix("step-"))


def test_another_number_of_pairs_a_step_is_another_run(recipe: Path, tmp_path: Path) -> None:
    run = f"run={tmp_path / 'run'}"
    assert train(load(recipe, [run, "trainer.batch_pairs=8"]), stopped=lambda: True) is None
    with pytest.raises(MexmaError, match=r"takes 16 pairs a step in phase train, and .* are 8") as caught:
        train(load(recipe, [run]), resume=True)
    assert caught.value.hint is not None and "trainer.batch_pairs" in caught.value.hint


LONG = ("--set", "trainer.steps=15", "--set", "trainer.checkpoint_every=3")
"""Steps enough to be hit in between."""


def has_step(run: Path, step: int) -> bool:
    log = run / "log.jsonl"
    return log.is_file() and len(log.read_text().split("\n")) > step


@pytest.mark.slow
def test_after_a_killed_process_all_go_on_from_the_last_checkpoint(
    recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of them is killed and all are started again; then the other one, and no restart is left."""
    whole, run = tmp_path / "whole", tmp_path / "run"
    train(load(recipe, [f"run={whole}", "trainer.batch_pairs=8", *LONG[1::2]]))
    started = forks_of_launchers(monkeypatch, SLOW_STEPS)

    def kill_twice() -> None:
        wait_until(lambda: has_step(run, 4))
        started[1].kill()
        wait_until(lambda: len(started) == 4 and has_step(run, 8))
        started[2].kill()

    processes = ("--nproc-per-node", "2", "--max-restarts", "1")
    with ThreadPoolExecutor(1) as pool:
        killer = pool.submit(kill_twice)
        done = command.run("train", recipe, *flags(f"run={run}"), *processes, *LONG)
        killer.result()
    fails(done, 1, "error: process 1 of 2 was ended by SIGKILL", "--resume")
    assert done.stdout == ""
    _, stdout, stderr = ended(started)
    assert stdout == ""
    assert "another process of this run is gone" in stderr and "Traceback" not in done.stderr + stderr
    assert steps_of(run) >= 6
    train(load(recipe, [f"run={run}", "trainer.batch_pairs=8", *LONG[1::2]]), resume=True)
    assert [record["step"] for record in log_of(run)] == list(range(1, 16))
    for here, there in zip(log_of(run), log_of(whole), strict=True):
        assert here["loss"] == pytest.approx(there["loss"], rel=1e-3)


RARE = ("--set", "trainer.checkpoint_every=1000")


def assert_stopped_once(run: Path, stderr: str, start: str, end: str) -> None:
    command = f"`{start} train {run / 'recipe.yaml'} --resume{end}` goes on from the last checkpoint\n"
    assert stderr.count(f"stopped; {command}") == 1 and "Traceback" not in stderr
    assert steps_of(run) == log_of(run)[-1]["step"]
    assert len(list((run / "train" / "checkpoints").iterdir())) == 1


@pytest.mark.slow
def test_sigterm_of_the_launcher_is_one_checkpoint_by_all(
    recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The launcher is this process."""
    run = tmp_path / "run"
    started = forks_of_launchers(monkeypatch, SLOW_STEPS)

    def stop() -> None:
        wait_until(lambda: has_step(run, 3))
        os.kill(os.getpid(), signal.SIGTERM)

    with ThreadPoolExecutor(1) as pool:
        stopper = pool.submit(stop)
        done = command.run("train", recipe, *flags(f"run={run}"), *LONG, *RARE, "--nproc-per-node", "2")
        stopper.result()
    fails(done, 128 + signal.SIGTERM)
    _, stdout, stderr = ended(started)
    assert done.stdout == stdout == ""
    assert_stopped_once(run, done.stderr + stderr, "mexma", " --nproc-per-node 2")


@pytest.mark.slow
def test_sigterm_of_one_process_is_one_checkpoint_by_all(recipe: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    processes = together(SLOW_STEPS + MEXMA, "train", recipe, *flags(f"run={run}"), *LONG, *RARE)
    processes[0].until(lambda: has_step(run, 3))
    processes[1].send_signal(signal.SIGTERM)
    codes, stdout, stderr = ended(processes)
    assert codes == [128 + signal.SIGTERM] * 2 and stdout == "", stderr
    assert_stopped_once(run, stderr, "torchrun ... -m mexma_cli", "")


@pytest.mark.slow
def test_a_mistake_is_told_once(recipe: Path, alone: Path) -> None:
    codes, stdout, stderr = ended(together(MEXMA, "train", recipe, *flags(f"run={alone}")))
    assert codes == [1, 1] and stdout == ""
    assert stderr.count("holds a training run already") == 1
    assert "Traceback" not in stderr and "is gone" not in stderr


def test_the_launcher_finds_mistakes_before_it_starts_any(recipe: Path, alone: Path) -> None:
    for override, said in ((f"run={alone}", "holds a training run already"), ("trainer.stps=1", "stps`")):
        done = fails(command.run("train", recipe, "--nproc-per-node", "2", "--set", override), 1)
        assert done.stdout == "" and done.stderr.count(said) == 1


def test_a_loss_that_is_no_number_in_one_process(recipe: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    wild = ["trainer.learning_rate=1e30", "trainer.clip=0", "trainer.warmup=0", "trainer.average=0"]
    codes, _, stderr = ended(together(MEXMA, "train", recipe, *flags(f"run={run}", *wild)))
    assert codes == [1, 1] and "Traceback" not in stderr
    assert len(re.findall(r"error: the (loss|gradient's norm) is (nan|inf) at step \d", stderr)) == 1
    told = json.loads((run / "train" / "not-a-number.json").read_text())
    assert steps_of(run) == told["step"] - 1
    assert {batch["process"] for batch in told["batches"]} <= {0, 1}
    for batch in told["batches"]:
        assert len(batch["pairs"]) == 4
        assert all(re.fullmatch(r"own/spa_Latn:\d+", pair) for pair in batch["pairs"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--max-restarts", "1"], "--max-restarts is for --nproc-per-node"),
        (["--nproc-per-node", "0"], "0"),
    ],
)
def test_wrong_usage(arguments: list[str], message: str, recipe: Path) -> None:
    fails(command.run("train", recipe, *arguments), 2, message)


@pytest.mark.parametrize("names", [("NPROC_PER_NODE", "MAX_RESTARTS"), ("PROCESSES", "RESTARTS")])
def test_processes_do_not_start_processes(
    names: tuple[str, str], recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, str] = {}

    def started(config: LaunchConfig, program: str) -> Callable[..., None]:
        seen.update(os.environ, processes=str(config.nproc_per_node), restarts=str(config.max_restarts))
        return lambda *arguments: None

    monkeypatch.setattr("torch.distributed.launcher.api.elastic_launch", started)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    wanted = {f"MEXMA_TRAIN_{name}": value for name, value in zip(names, "23", strict=True)}
    for name, value in wanted.items():
        monkeypatch.setenv(name, value)
    result = command.run("train", recipe, "--set", f"run={tmp_path / 'run'}")
    assert (result.exit_code, seen["processes"], seen["restarts"]) == (0, "2", "3")
    assert not wanted.keys() & seen.keys()
    assert int(seen["OMP_NUM_THREADS"]) >= 1 and "OMP_NUM_THREADS" not in os.environ
