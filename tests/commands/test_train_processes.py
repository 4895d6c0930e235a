"""`mexma train` in several processes: the run that one process with all the pairs would have been.

Two gloo processes on the processor, a tiny encoder, and no dropout, since each process draws its own.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from safetensors.torch import load_file

from mexma_cli.recipe import load
from mexma_cli.stages.prepare import prepare
from mexma_cli.stages.train import train

ROOT = Path(__file__).parent.parent.parent
STEPS = 6
WAIT = 120
"""Seconds after which a process that does not come to an end is a failure."""


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """60 pairs and one phase of MEXMA whose terms are all taken over all processes."""
    folder = tmp_path_factory.mktemp("processes")
    lines = (ROOT / "examples" / "spa-eng" / "gold.tsv").read_text(encoding="utf-8").splitlines()[:60]
    (folder / "pairs.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    for column, name in enumerate(("spa", "eng")):
        text = "".join(line.split("\t")[column] + "\n" for line in lines[:20])
        (folder / f"dev.{name}").write_text(text, encoding="utf-8")
    corpus = {"name": "tatoeba", "format": "tsv", "path": "pairs.tsv", "languages": ["spa_Latn"]}
    raw = {
        "name": "tiny",
        "run": str(folder / "unused"),
        "data": {
            "root": str(folder),
            "store": str(folder / "data"),
            "max_tokens": 40,
            "corpora": [corpus],
        },
        "encoder": {
            "new": {"layers": 2, "width": 32, "heads": 2, "ffn": 64, "dropout": 0.0},
            "tokenizer": {"vocabulary": 400},
        },
        "objective": {
            "name": "mexma",
            "gamma": 0.0,
            "contrastive": 0.5,
            "gather": True,
            "head": {"layers": 1, "heads": 2, "ffn": 64, "dropout": 0.0},
        },
        "trainer": {
            "steps": STEPS,
            "batch_pairs": 4,
            "learning_rate": 0.003,
            "average": 0.9,
            "log_every": 1,
            "checkpoint_every": 2,
            "device": "cpu",
        },
    }
    path = folder / "recipe.yaml"
    path.write_text(yaml.safe_dump(raw), encoding="utf-8")
    prepare(load(path))
    return path


@pytest.fixture(scope="module")
def alone(recipe: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run in one process, with twice the batch."""
    run = tmp_path_factory.mktemp("alone") / "run"
    train(load(recipe, [f"run={run}", "trainer.batch_pairs=8"]))
    return run


def start(recipe: Path, run: Path, *arguments: str, program: tuple[str, ...] = ("-m", "mexma_cli")) -> Any:
    command = [sys.executable, *program, "train", str(recipe), "--set", f"run={run}", *arguments]
    return subprocess.Popen(
        command,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        start_new_session=True,
    )


def end(process: Any) -> tuple[int, str, str]:
    """Exit code, stdout and stderr; a process that hangs is killed with all it started."""
    try:
        stdout, stderr = process.communicate(timeout=WAIT)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        pytest.fail(f"no end after {WAIT} s: {process.communicate()[1]}")
    return process.returncode, stdout, stderr


def two(recipe: Path, run: Path, *arguments: str) -> None:
    code, stdout, stderr = end(start(recipe, run, "--nproc-per-node", "2", *arguments))
    assert code == 0, stderr
    assert stdout == f"{run / 'encoder'}\n"


def log_of(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]


def assert_same_run(run: Path, other: Path, rel: float = 1e-5) -> None:
    records, expected = log_of(run), log_of(other)
    assert [record["step"] for record in records] == list(range(1, STEPS + 1))
    for here, there in zip(records, expected, strict=True):
        assert here["pairs"] == there["pairs"]
        assert here["loss"] == pytest.approx(there["loss"], rel=rel)
        assert here["terms"] == pytest.approx(there["terms"], rel=rel, abs=1e-6)
        assert here["gradient_norm"] == pytest.approx(there["gradient_norm"], rel=10 * rel)
    ours, theirs = (load_file(folder / "encoder" / "model.safetensors") for folder in (run, other))
    assert ours.keys() == theirs.keys()
    for name, value in theirs.items():
        assert torch.allclose(ours[name], value, rtol=1e-3, atol=1e-4), name


def test_two_processes_are_one_with_twice_the_batch(recipe: Path, alone: Path, tmp_path: Path) -> None:
    two(recipe, tmp_path / "run")
    assert_same_run(tmp_path / "run", alone)
    assert log_of(alone)[-1]["loss"] < log_of(alone)[0]["loss"]
