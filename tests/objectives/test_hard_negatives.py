"""Hard negatives in every contrastive objective: the formula, and nothing else that changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.objectives.base import Objective, Start
from mexma_cli.objectives.views import TokenPairs
from mexma_cli.settings.registry import ObjectiveSettings
from tests.objectives.formulas import hard_negatives
from tests.objectives.pairs import token_ids

OBJECTIVES: dict[str, dict[str, Any]] = {
    "contrastive": {"tlm": {}},
    "dap": {"projection": "none"},
    "mexma": {"contrastive": 0.5, "head": {"layers": 1, "heads": 2, "ffn": 32}},
    "bag": {},
}
CHANGED = [
    ["The meeting will not start tomorrow at nine o'clock."],
    [],
    ["Where is the farthest railway station?", "Where is the nearest bakery?", "Where is the river?"],
    *([[f"She left her boat {word}."] for word in ("here", "there", "in the car", "at nine", "today")]),
]
"""Hard negatives of the eight English sentences."""


def made(name: str, encoder: SentenceEncoder, share: float) -> Objective:
    torch.manual_seed(0)
    chosen = ObjectiveSettings.chosen(OBJECTIVES[name] | {"name": name, "hard_negatives": share})
    objective: Objective = chosen.losses().build(Start(encoder), chosen)
    return objective.eval()


@pytest.mark.parametrize("name", OBJECTIVES)
def test_a_split_softmax(name: str, tiny_encoder: Path, sentences: dict[str, list[str]]) -> None:
    encoder = SentenceEncoder.load(str(tiny_encoder), "cpu")
    pairs = token_ids(encoder, sentences)
    negatives = [[ids[1:-1] for ids in encoder.tokenize(own)] if own else [] for own in CHANGED]
    with_, without = made(name, encoder, 0.25), made(name, encoder, 0.0)
    assert with_.takes == ("negatives",) and not without.takes
    terms = with_(with_.batch(TokenPairs(pairs, 3, extra={"negatives": negatives})))
    before = without(without.batch(TokenPairs(pairs, 3)))
    assert set(terms) == set(with_.weights) == {*before, "hard_negatives"}
    for term, value in before.items():  # masks and in-batch negatives are what they were
        assert float(terms[term].detach()) == pytest.approx(float(value.detach()), rel=1e-4), term
    whole = without.weights["contrastive"]
    assert with_.weights["contrastive"] == 0.75 * whole
    assert with_.weights["hard_negatives"] == 0.25 * whole
    if name == "bag":
        encoder = with_.export()
    x, y = (encoder.embed(sentences[side]).astype(np.float64) for side in ("fra", "eng"))
    own = [encoder.embed(changed).astype(np.float64) if changed else x[:0] for changed in CHANGED]
    wanted = hard_negatives(x, y, own, 0.05)
    assert float(terms["hard_negatives"].detach()) == pytest.approx(wanted, rel=2e-3)
    torch.stack([with_.weights[term] * value for term, value in terms.items()]).sum().backward()
    assert all(torch.isfinite(p.grad.to_dense()).all() for p in with_.parameters() if p.grad is not None)
