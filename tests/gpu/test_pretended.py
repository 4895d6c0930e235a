"""Training and searching where there is no GPU, on a pretended one: all that they need is on its device."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch.utils import backend_registration

from mexma_cli.knn.exact import knn
from mexma_cli.knn.neighbours import Neighbours
from mexma_cli.settings.load import load
from mexma_cli.stages.train.train import train
from tests.examples import demo_pairs, prepared
from tests.gpu.pretended import sides
from tests.knn.searching import same
from tests.processes import Program

ROOT = Path(__file__).parents[2]
PHASES = [
    {"name": "bag", "objective": {"name": "bag", "ngrams": [3, 4], "own_tokens": 60, "keep_ngrams": True}},
    {
        "name": "mexma",
        "objective": {
            "name": "mexma",
            "contrastive": 1.0,
            "head": {"layers": 1, "heads": 2, "ffn": 64, "dropout": 0.0},
        },
    },
    {"name": "ranking", "objective": {"name": "contrastive", "projection": "tanh"}},
]


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    keys = {
        "encoder": {
            "new": {"layers": 1, "width": 32, "heads": 2, "ffn": 64, "dropout": 0.0},
            "tokenizer": {"vocabulary": 400, "words": 150, "lowercase": True, "latin": True},
        },
        "phases": PHASES,
        "trainer": {"steps": 2, "batch_pairs": 4, "accumulate": 2, "log_every": 1, "dev_every": 2},
    }
    return prepared(tmp_path_factory.mktemp("pretended"), demo_pairs(60), keys)


def log_of(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]


@pytest.mark.skipif(
    not hasattr(backend_registration, "_setup_privateuseone_for_python_backend"),
    reason="this torch has no devices that are written in Python",
)
@pytest.mark.parametrize(
    ("keys", "tolerance"),
    [
        (["trainer.precision=fp32", "trainer.average=0.9", "trainer.activation_checkpointing=true"], 1e-4),
        pytest.param(["trainer.precision=bf16"], 1e-2, marks=pytest.mark.slow),
        pytest.param(["trainer.precision=fp16"], 1e-2, marks=pytest.mark.slow),
    ],
    ids=["fp32", "bf16", "fp16"],
)
def test_a_run_has_the_losses_of_a_processor_and_a_search_its_neighbours(
    keys: list[str], tolerance: float, recipe: Path, tmp_path: Path
) -> None:
    here = [*keys, f"run={tmp_path / 'here'}", "trainer.device=cpu"]
    train(load(recipe, here), dev_score=lambda encoder: {"xsim": 1.0})
    there = [*keys, f"run={tmp_path / 'there'}", "trainer.device=cuda"]
    neighbours = tmp_path / "neighbours.npz"
    code = "import sys; from tests.gpu.pretended import main; main(*sys.argv[1:])"
    program = Program(code, neighbours, recipe, *there)
    assert program.wait() == 0, program.communicate()[1][-3000:]
    assert same(Neighbours(**np.load(neighbours)), knn(*sides(), 4))
    wanted, found = log_of(tmp_path / "here"), log_of(tmp_path / "there")
    assert len(found) == len(wanted) == 6
    for one, other in zip(found, wanted, strict=True):
        assert one["loss"] == pytest.approx(other["loss"], rel=tolerance), (one, other)
        assert one["terms"] == pytest.approx(other["terms"], rel=tolerance)
