"""What tests of stages share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mexma_cli.stages.train.train import train
from tests.examples import demo_pairs, prepared
from tests.stages.train.training import BAG_STEPS, MEXMA_STEPS, settings


@pytest.fixture
def start(tiny_encoder: Path) -> dict[str, Any]:
    """A recipe's `encoder` section."""
    return {"from": str(tiny_encoder)}


@pytest.fixture(scope="module")
def recipe_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two phases on 60 pairs, prepared; every run gets its own folder by an override."""
    folder = tmp_path_factory.mktemp("train")
    shared: dict[str, Any] = {"batch_pairs": 8, "log_every": 1, "checkpoint_every": 5, "device": "cpu"}
    keys = {
        "encoder": {
            "new": {"layers": 1, "width": 32, "heads": 2, "ffn": 64},
            "tokenizer": {"vocabulary": 400},
        },
        "trainer": shared,
        "phases": [
            {
                "name": "bag",
                "objective": {"name": "bag", "token_dropout": 0.1},
                "trainer": {"steps": BAG_STEPS, "learning_rate": 0.05, "accumulate": 1},
            },
            {
                "name": "mexma",
                "objective": {
                    "name": "mexma",
                    "contrastive": 0.5,
                    "head": {"layers": 1, "heads": 2, "ffn": 64},
                },
                "trainer": {"steps": MEXMA_STEPS, "learning_rate": 0.003, "average": 0.9},
            },
        ],
    }
    return prepared(folder, demo_pairs(60), keys)


@pytest.fixture(scope="module")
def finished(recipe_file: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """An uninterrupted run in each precision."""
    runs = {}
    for precision in ("fp32", "bf16"):
        runs[precision] = tmp_path_factory.mktemp("whole") / "run"
        recipe = settings(recipe_file, runs[precision], f"trainer.precision={precision}")
        assert train(recipe) == runs[precision] / "encoder"
    return runs
