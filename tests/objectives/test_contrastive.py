"""The contrastive baseline: InfoNCE between CLS vectors, and nothing that MEXMA adds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.objectives.contrastive.loss import Contrastive
from mexma_cli.objectives.contrastive.settings import ContrastiveSettings
from tests.objectives.formulas import info_nce, unit
from tests.objectives.pairs import views_of

Sentences = dict[str, list[str]]


def objective_of(folder: Path, **settings: object) -> Contrastive:
    encoder = SentenceEncoder.load(str(folder), "cpu")
    chosen = ContrastiveSettings.model_validate({"name": "contrastive"} | settings)
    return Contrastive(encoder, chosen).eval()


@pytest.mark.parametrize("temperature, margin, symmetric", [(0.05, 0.0, True), (0.1, 0.3, False)])
def test_the_loss_is_info_nce_of_what_the_encoder_embeds(
    tiny_encoder: Path, sentences: Sentences, temperature: float, margin: float, symmetric: bool
) -> None:
    direction = "both" if symmetric else "forward"
    objective = objective_of(tiny_encoder, temperature=temperature, margin=margin, direction=direction)
    terms = objective(views_of(objective, sentences))
    source, target = (objective.encoder.embed(sentences[side]).astype(np.float64) for side in ("fra", "eng"))
    there, back = info_nce(source, target, temperature, margin)
    expected = (there + back) / 2 if symmetric else there
    assert set(terms) == set(objective.weights) == {"contrastive"}
    assert float(terms["contrastive"].detach()) == pytest.approx(expected, rel=1e-4)


def test_a_repeated_sentence_is_no_negative(tiny_encoder: Path, sentences: Sentences) -> None:
    """The pair of one sentence twice: with itself as negative the loss would be log 2."""
    objective = objective_of(tiny_encoder)
    twice = {side: rows[:1] * 2 for side, rows in sentences.items()}
    assert float(objective(views_of(objective, twice))["contrastive"].detach()) == pytest.approx(0, abs=1e-6)


def test_training_brings_translations_together(tiny_encoder: Path, sentences: Sentences) -> None:
    objective = objective_of(tiny_encoder, temperature=0.1)
    views = views_of(objective, sentences)
    groups = objective.groups()
    assert {id(p) for group in groups.values() for p in group} == {id(p) for p in objective.parameters()}
    optimiser = torch.optim.AdamW([p for group in groups.values() for p in group], lr=1e-3)
    losses = []
    for _ in range(15):
        loss = objective(views)["contrastive"]
        losses.append(float(loss.detach()))
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
    assert losses[-1] < losses[0] / 4
    source, target = (objective.export().embed(sentences[side]) for side in ("fra", "eng"))
    assert ((unit(source) @ unit(target).T).argmax(axis=1) == np.arange(8)).all()
