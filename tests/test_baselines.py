"""benchmarks/baselines.py: what its recipes share, and the encoder of characters."""

from __future__ import annotations

import gzip
import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mexma_cli.settings.load import load

ROOT = Path(__file__).parent.parent


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("baselines")


def test_recipes_have_minis_text_and_shape(script: Any) -> None:
    mini, base = load("mini"), load(script.BASE)
    assert base.phases[1] == mini.phases[1]
    names = [f"baselines/{path.stem}" for path in (ROOT / "recipes" / "baselines").iterdir()]
    assert {*names} <= {*script.NAMES}
    for name in names:
        recipe = load(name)
        assert (recipe.data, recipe.encoder, recipe.dev) == (mini.data, mini.encoder, mini.dev)
        assert (recipe.phases[0] == base.phases[0]) is (name not in script.FROM_NOTHING)
        trainers = [phase.trainer for phase in base.phases]
        if name == "baselines/contrastive-long":
            trainers[1] = trainers[1].model_copy(update={"steps": 800})
        same = recipe.phases[1:] if name == "baselines/contrastive-only" else recipe.phases
        assert [phase.trainer for phase in same] == trainers[-len(same) :]


def test_characters_find_what_is_spelled_alike(script: Any, shared: Path) -> None:
    sides = []
    for code in ("fra_Latn", "eng_Latn"):
        with gzip.open(shared / "data" / "ntrex128" / f"{code}.txt.gz", "rt", encoding="utf-8") as file:
            sides.append(file.read().splitlines()[:200])
    encoder = script.Characters(sides[1])
    x, y = map(encoder.embed, sides)
    assert x.dtype == np.float32 and np.allclose(np.linalg.norm(y, axis=1), 1, atol=1e-5)
    found = float(np.mean((x @ y.T).argmax(axis=1) == np.arange(200)))
    assert 0.5 < found < 1  # names and numbers, without a word of French
