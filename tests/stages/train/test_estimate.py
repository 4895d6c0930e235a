"""What a training takes: counts of parameters and operations against torch's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.objectives.base import Start
from mexma_cli.objectives.views import TokenPairs
from mexma_cli.reporting.tables import published_rows
from mexma_cli.settings.load import load, shipped
from mexma_cli.settings.registry import ObjectiveSettings
from mexma_cli.settings.training import Recipe
from mexma_cli.stages.costs import PEAKS
from mexma_cli.stages.train.estimate import EFFICIENCY, estimate_training, shape_of

LENGTH = 16
OBJECTIVES: dict[str, dict[str, Any]] = {
    "mexma": {"name": "mexma", "head": {"layers": 1, "heads": 4, "ffn": 48}},
    "one side": {
        "name": "mexma",
        "symmetric": False,
        "alpha": 0,
        "gamma": 0,
        "head": {"heads": 4, "ffn": 48},
    },
    "tr": {"name": "contrastive", "projection": "tanh"},
    "tlm": {"name": "contrastive", "tlm": {}},
    "dap": {"name": "dap", "rtl": {"layers": 1}},
    "clft": {"name": "clft"},
}


def of(name: str, encoder: Path) -> Recipe:
    raw: dict[str, Any] = {
        "name": "own", "run": "r", "data": {"store": "s", "max_tokens": 64, "corpora": [
            {"name": "a", "format": "tsv", "path": "a.tsv", "languages": ["fra"]}]},
        "encoder": {"from": str(encoder)}, 
        "phases": [{"name": "p", "objective": OBJECTIVES[name], "trainer": {"steps": 5}}],
    }  # fmt: skip
    return Recipe.model_validate(raw)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_parameters_and_operations_are_those_of_torch(name: str, tiny_encoder: Path) -> None:
    recipe = of(name, tiny_encoder)
    encoder = SentenceEncoder.load(str(tiny_encoder), "cpu", max_tokens=64)
    shape = shape_of(recipe)
    assert shape.parameters == sum(p.numel() for p in encoder.model.parameters())
    settings = recipe.phases[0].objective
    objective = settings.losses().build(Start(encoder), settings)
    work = settings.work(shape)
    assert work is not None
    trained = sum(p.numel() for p in objective.parameters())
    positions = 64 if name == "dap" else 0  # that a new head has more, for a second sentence
    assert trained == shape.parameters + work.heads + positions * shape.width
    rng = np.random.default_rng(0)
    ids = [tuple(rng.integers(5, shape.vocabulary, LENGTH - 2) for _ in range(2)) for _ in range(16)]
    views = objective.batch(TokenPairs(ids))
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        objective.eval()(views)
    # Torch's counter does not see packed attention, nor do first tokens take part in every head.
    seen = work.forward(LENGTH) - sum(one.attention(LENGTH) for one in work.passes)
    assert counter.get_total_flops() / 16 == pytest.approx(seen, rel=0.08)


def test_translation_ranking_takes_what_the_paper_counts() -> None:
    """DAP's Table 6 for TR and TR+TLM with mBERT; the latter is with the logits of all tokens."""
    published = {row.encoder: row.scores["forward"] for row in published_rows("objectives")}
    recipe = load(shipped()["systems/tr-tlm-mbert"])
    shape, settings = shape_of(recipe), recipe.phases[0].objective
    tr = load(shipped()["systems/tr-mbert"]).phases[0].objective.work(shape)
    assert tr is not None and tr.forward(32) / 1e9 == pytest.approx(published["mBERT+TR"], abs=0.1)
    everything = ObjectiveSettings.chosen(settings.model_dump() | {"tlm": {"masking": 0.999}}).work(shape)
    assert everything is not None
    assert everything.forward(32) / 1e9 == pytest.approx(published["mBERT+TR+TLM"], abs=0.3)


def test_the_published_training() -> None:
    found = estimate_training(load(shipped()["81langs"]), 8)
    (phase,) = found.phases
    assert (phase.pairs_per_step, phase.pairs) == (2400, 720_000_000)
    assert shape_of(load(shipped()["81langs"])).parameters == 558_840_832  # XLM-R large without its pooler
    assert phase.operations == pytest.approx(3 * phase.forward * phase.pairs)
    assert phase.gpu_hours["A100"] == pytest.approx(phase.operations / (PEAKS["A100"] * EFFICIENCY) / 3600)
    sharded = estimate_training(load(shipped()["81langs"], ["trainer.sharding=full"]), 8).phases[0]
    assert phase.memory - sharded.memory == pytest.approx(16 * phase.trained * 7 / 8, rel=1e-6)
    saved = estimate_training(
        load(shipped()["81langs"], ["trainer.activation_checkpointing=true"]), 8
    ).phases[0]
    assert saved.memory < 0.6 * phase.memory
