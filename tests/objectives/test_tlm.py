"""TR+TLM: pairs as one sequence, the checkpoint's own head, and the loss from the formula."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForMaskedLM

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.objectives.contrastive import loss as module
from mexma_cli.objectives.contrastive.loss import Contrastive
from mexma_cli.objectives.contrastive.settings import ContrastiveSettings
from mexma_cli.objectives.views import PairViews
from tests.objectives.formulas import info_nce, log_softmax
from tests.objectives.pairs import views_of

Sentences = dict[str, list[str]]
FAMILIES = ["xlm-roberta", "bert"]


def objective_of(folder: Path, start: str | None, **settings: Any) -> Contrastive:
    encoder = SentenceEncoder.load(str(folder), "cpu")
    torch.manual_seed(0)
    chosen = {"name": "contrastive", "direction": "forward", "projection": "tanh", "tlm": settings}
    return Contrastive(encoder, ContrastiveSettings.model_validate(chosen), start).eval()


def masked_sequences(views: PairViews) -> list[slice]:
    _, masked = views.split()
    return [slice(a, b) for a, b in pairwise(masked.cu_seqlens.tolist())]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_pair_is_what_the_tokeniser_makes_of_it(
    family: str, masked_lms: dict[str, Path], sentences: Sentences
) -> None:
    """And its tokens have the positions that they have in their own sentences."""
    objective = objective_of(masked_lms[family], None)
    views = views_of(objective, sentences)
    _, masked = views.split()
    restored = masked.input_ids.clone()
    restored[views.masked_tokens] = views.labels
    found = {
        tuple(restored[where].tolist()): masked.position_ids[where].tolist()
        for where in masked_sequences(views)
    }
    tokenizer = objective.encoder.tokenizer
    first, skipped = (2, 0) if family == "xlm-roberta" else (0, 1)  # BERT's second [CLS] is not there
    expected = {}
    for source, target in zip(sentences["fra"], sentences["eng"], strict=True):
        x, y = (len(tokenizer(side)["input_ids"]) for side in (source, target))
        positions = [*range(first, first + x), *range(first + skipped, first + y)]
        expected[tuple(tokenizer(source, target)["input_ids"])] = positions
    assert found == expected and len(found) == 8
    assert list(map(len, found)) == sorted(map(len, found))
    assert not np.isin(views.labels, tokenizer.all_special_ids).any()


@pytest.mark.parametrize("family", FAMILIES)
def test_the_loss_is_the_checkpoints_own_at_masked_tokens(
    family: str, masked_lms: dict[str, Path], sentences: Sentences
) -> None:
    """Cross-entropy in NumPy of the logits of transformers' masked language model, sequence by sequence."""
    folder = masked_lms[family]
    objective = objective_of(folder, str(folder))
    views = views_of(objective, sentences)
    terms = objective(views)
    assert set(terms) == set(objective.weights) and objective.weights["tlm"] == 1.0
    _, masked = views.split()
    model = AutoModelForMaskedLM.from_pretrained(folder).eval()
    logits = np.empty((len(masked.input_ids), model.config.vocab_size))
    for where in masked_sequences(views):
        with torch.no_grad():
            out = model(masked.input_ids[None, where], position_ids=masked.position_ids[None, where])
        logits[where] = out.logits[0].double().numpy()
    rows = logits[views.masked_tokens]
    expected = -log_softmax(rows)[np.arange(len(rows)), views.labels].mean()
    assert len(rows) > 20
    assert float(terms["tlm"].detach()) == pytest.approx(expected, rel=1e-4)


def test_an_untrained_head_where_there_is_no_checkpoint(
    tiny_encoder: Path, sentences: Sentences, caplog: pytest.LogCaptureFixture
) -> None:
    fresh = objective_of(tiny_encoder, None)
    assert not caplog.records
    assert float(fresh.tlm.head.bias.detach().abs().max()) == 0
    weights = fresh.tlm.head.dense.weight.detach()
    assert 0.2 < float(weights.std()) < 0.4  # the configuration's 0.3
    scaled = objective_of(tiny_encoder, None, output_scale=0.25)
    sentences_views = views_of(scaled, sentences)
    assert torch.equal(scaled.tlm.head.norm.weight, torch.full_like(scaled.tlm.head.norm.weight, 0.25))
    losses = [float(one(sentences_views)["tlm"].detach()) for one in (scaled, fresh)]
    guessing = np.log(fresh.encoder.model.config.vocab_size)
    assert abs(losses[0] - guessing) < abs(losses[1] - guessing) / 3
    without = objective_of(tiny_encoder, str(tiny_encoder))
    assert "has no masked-LM head" in caplog.text
    assert torch.isfinite(without(views_of(without, sentences))["tlm"])


def test_gradients_reach_what_they_should(
    masked_lms: dict[str, Path], sentences: Sentences, monkeypatch: pytest.MonkeyPatch
) -> None:
    objective = objective_of(masked_lms["xlm-roberta"], str(masked_lms["xlm-roberta"]))
    views = views_of(objective, sentences)
    seen = []

    def cut(*arguments: Any) -> torch.Tensor:
        seen.append(run_packed(*arguments).detach().requires_grad_())
        return seen[-1]

    run_packed = module.run_packed
    monkeypatch.setattr(module, "run_packed", cut)
    terms = objective(views)
    (hidden,) = seen
    clean, _ = views.split()
    tokens = len(clean.input_ids)

    def reached(term: str) -> set[int]:
        objective.zero_grad()
        hidden.grad = None
        terms[term].backward(retain_graph=term == "contrastive")
        assert hidden.grad is not None
        return set(hidden.grad.abs().sum(dim=1).nonzero()[:, 0].tolist())

    assert objective.projection is not None
    assert reached("contrastive") == set(clean.cu_seqlens[:-1].tolist())
    assert all(p.grad is not None for p in objective.projection.parameters())
    assert all(p.grad is None for p in objective.tlm.parameters())
    assert reached("tlm") == set((tokens + views.masked_tokens).tolist())
    assert all(p.grad is None for p in objective.projection.parameters())
    assert all(p.grad is not None and p.grad.abs().max() > 0 for p in objective.tlm.parameters())
    words = objective.model.get_input_embeddings().weight
    assert words.grad is not None and words.grad.abs().max() > 0  # tied


def test_the_projection_is_tanh_of_a_layer(tiny_encoder: Path, sentences: Sentences) -> None:
    """TR from its formula: cosines of tanh(W h + b) over the temperature, source to target."""
    encoder = SentenceEncoder.load(str(tiny_encoder), "cpu")
    settings = {"name": "contrastive", "direction": "forward", "projection": "tanh", "margin": 0.1}
    torch.manual_seed(1)
    objective = Contrastive(encoder, ContrastiveSettings.model_validate(settings)).eval()
    assert objective.projection is not None
    assert float(objective.projection.dense.weight.detach().std()) == pytest.approx(0.02, rel=0.1)
    assert not objective.projection.dense.bias.detach().any()
    with torch.no_grad():
        objective.projection.dense.weight.mul_(20)
        objective.projection.dense.bias.uniform_()
    views = views_of(objective, sentences)
    loss = float(objective(views)["contrastive"].detach())
    w, b = (p.detach().double().numpy() for p in objective.projection.dense.parameters())
    x, y = (np.tanh(encoder.embed(sentences[side]) @ w.T + b) for side in ("fra", "eng"))
    assert loss == pytest.approx(info_nce(x, y, 0.05, 0.1)[0], rel=1e-4)
    assert objective.export() is encoder
