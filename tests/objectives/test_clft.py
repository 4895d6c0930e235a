"""CLFT: both distances from the formula, a teacher that stays as it is, and the encoder's own pooling."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pytest
import torch

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.encoder.model.pooling import Dense, Normalize
from mexma_cli.errors import MexmaError
from mexma_cli.objectives.clft.loss import Clft
from mexma_cli.objectives.clft.settings import ClftSettings
from mexma_cli.objectives.views import TokenPairs
from tests.objectives.formulas import unit
from tests.objectives.pairs import token_ids, views_of

Sentences = dict[str, list[str]]


def encoder_of(folder: Path, pooling: str) -> SentenceEncoder:
    """With the first token, the mean, or the mean and two modules after it."""
    encoder = SentenceEncoder.load(str(folder), "cpu", pooling="cls" if pooling == "cls" else "mean")
    if pooling == "dense":
        torch.manual_seed(5)
        encoder.modules = torch.nn.Sequential(Dense(torch.nn.Linear(32, 20), torch.nn.Tanh()), Normalize())
    return encoder


def other_than(encoder: SentenceEncoder) -> SentenceEncoder:
    """The same with somewhat different weights."""
    teacher = copy.deepcopy(encoder)
    torch.manual_seed(6)
    with torch.no_grad():
        for p in teacher.model.parameters():
            p.add_(0.05 * torch.randn_like(p))
    return teacher


@pytest.mark.parametrize("pooling", ["cls", "mean", "dense"])
def test_the_loss_is_the_formulas(tiny_encoder: Path, sentences: Sentences, pooling: str) -> None:
    encoder = encoder_of(tiny_encoder, pooling)
    teacher = other_than(encoder)
    objective = Clft(encoder, ClftSettings(name="clft"), teacher).eval()
    terms = objective(views_of(objective, sentences))
    source, target = (unit(encoder.embed(sentences[side])) for side in ("fra", "eng"))
    anchors = unit(teacher.embed(sentences["eng"]))
    expected = {
        "anchor": np.mean(1 - (target * anchors).sum(axis=1)),
        "cross": np.mean(1 - (target * source).sum(axis=1)),
    }
    assert objective.weights == {"anchor": 1.0, "cross": 0.4}
    assert expected["anchor"] > 0.01
    assert {name: float(term.detach()) for name, term in terms.items()} == pytest.approx(expected, rel=1e-4)


def test_the_teacher_is_frozen_and_in_no_checkpoint(tiny_encoder: Path, sentences: Sentences) -> None:
    encoder = encoder_of(tiny_encoder, "dense")
    teacher = copy.deepcopy(encoder)
    objective = Clft(encoder, ClftSettings(name="clft"), teacher)
    views = views_of(objective, sentences)
    trained = {id(p) for p in [*encoder.model.parameters(), *encoder.modules.parameters()]}
    assert {id(p) for p in objective.parameters()} == trained
    groups = objective.groups()
    assert {id(p) for group in groups.values() for p in group} == trained
    kept = {f"model.{name}" for name in encoder.model.state_dict()}
    assert set(objective.state_dict()) == kept | {"after.0.linear.weight", "after.0.linear.bias"}
    before = copy.deepcopy(teacher.model.state_dict())
    objective.train()
    assert not teacher.model.training
    optimiser = torch.optim.AdamW(objective.parameters(), lr=1e-3)
    losses = []
    for _ in range(12):
        terms = objective(views)
        loss = terms["anchor"] + 0.4 * terms["cross"]
        losses.append(float(loss.detach()))
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
    assert losses[-1] < losses[0] / 2
    assert all(torch.equal(value, before[name]) for name, value in teacher.model.state_dict().items())
    assert all(p.grad is None for p in teacher.model.parameters())


@pytest.mark.parametrize("term", ["anchor", "cross"])
def test_gradients_reach_both_sides_of_the_cross_term_alone(
    tiny_encoder: Path, sentences: Sentences, term: str
) -> None:
    """No stop-gradient is stated: the targets are drawn to the sources too."""
    encoder = encoder_of(tiny_encoder, "mean")
    objective = Clft(encoder, ClftSettings(name="clft"), other_than(encoder)).eval()
    words = encoder.model.get_input_embeddings().weight
    views = views_of(objective, sentences)
    objective(views)[term].backward()
    assert words.grad is not None
    reached = set(words.grad.abs().sum(dim=1).nonzero()[:, 0].tolist())
    source, target = ({int(i) for ids in encoder.tokenize(sentences[s]) for i in ids} for s in ("fra", "eng"))
    assert reached == (target if term == "anchor" else source | target)


def test_an_export_keeps_pooling_and_modules(
    tiny_encoder: Path, sentences: Sentences, tmp_path: Path
) -> None:
    encoder = encoder_of(tiny_encoder, "dense")
    objective = Clft(encoder, ClftSettings(name="clft"), copy.deepcopy(encoder))
    with torch.no_grad():
        objective.after[0].linear.weight.mul_(1.5)
    objective.export().save(tmp_path / "saved")
    again = SentenceEncoder.load(str(tmp_path / "saved"), "cpu")
    assert again.pooling == "mean" and [type(module) for module in again.modules] == [Dense, Normalize]
    assert np.abs(again.embed(sentences["eng"]) - encoder.embed(sentences["eng"])).max() < 1e-6


def test_a_teacher_of_another_tokeniser_and_width(
    tiny_encoder: Path, masked_lms: dict[str, Path], sentences: Sentences
) -> None:
    """It sees its own tokens, behind its prefix, and what it is compared with is a linear map's."""
    encoder = encoder_of(tiny_encoder, "dense")
    teacher = SentenceEncoder.load(str(masked_lms["bert"]), "cpu", pooling="mean")
    settings = ClftSettings(name="clft", teacher=str(masked_lms["bert"]))
    assert encoder.dim != teacher.dim
    objective = Clft(encoder, settings, teacher).eval()
    pairs = token_ids(encoder, sentences)
    with pytest.raises(MexmaError, match="the pairs have no tokens for the teacher"):
        objective.batch(TokenPairs(pairs))
    teacher.prefix = "query: "
    read = [[ids[1:-1]] for ids in teacher.tokenize(sentences["eng"])]
    terms = objective(objective.batch(TokenPairs(pairs, extra={"teacher": read})))
    assert objective.as_teacher is not None
    mapped = unit(encoder.embed(sentences["eng"]) @ objective.as_teacher.weight.detach().numpy().T)
    expected = np.mean(1 - (mapped * unit(teacher.embed(sentences["eng"]))).sum(axis=1))
    assert float(terms["anchor"].detach()) == pytest.approx(expected, rel=1e-4)
    terms["anchor"].backward()
    assert objective.as_teacher.weight.grad is not None and objective.export() is encoder
