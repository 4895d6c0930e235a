"""The unmasking head at masked positions is the whole head, and it reads the other side's vector."""

from __future__ import annotations

import pytest
import torch

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.encoder.model.attention import run_packed
from mexma_cli.objectives import losses
from mexma_cli.objectives.masking import Masking
from mexma_cli.objectives.mexma.loss import Mexma
from mexma_cli.objectives.mexma.settings import Head, MexmaSettings
from tests.objectives.pairs import views_of


@pytest.fixture
def mexma(tiny_encoder: object) -> Mexma:
    encoder = SentenceEncoder.load(str(tiny_encoder), "cpu")
    torch.manual_seed(0)
    return Mexma(encoder, MexmaSettings(name="mexma", head=Head(layers=2, heads=4, ffn=64))).eval()


def test_masked_positions_only_is_the_whole_head_there(mexma: Mexma, sentences: dict[str, list[str]]) -> None:
    views = views_of(mexma, sentences)
    terms = mexma(views)
    clean, masked = views.split()
    words = mexma.model.get_input_embeddings().weight
    with torch.no_grad():
        tokens = len(clean.input_ids)
        hidden = run_packed(mexma.model, views.batch, "bucketed")
        cls = hidden[clean.cu_seqlens[:-1].long()]
        states = mexma.head(hidden[tokens:], cls[views.partners], masked, "bucketed")
        logits = states @ words.T + mexma.head.bias  # of every token, masked or not
    labels = torch.full((tokens,), -100)
    labels[views.masked_tokens] = views.labels
    source = torch.isin(
        torch.repeat_interleave(torch.arange(len(clean.lengths)), torch.tensor(clean.lengths)),
        views.source_rows,
    )
    for side, name in ((source, "unmask_source"), (~source, "unmask_target")):
        expected = torch.nn.functional.cross_entropy(logits[side], labels[side], ignore_index=-100)
        assert float(terms[name].detach()) == pytest.approx(float(expected), rel=1e-5)


def test_the_first_token_of_the_head_is_the_translations_cls(
    mexma: Mexma, sentences: dict[str, list[str]]
) -> None:
    """The unmasking of the source alone gives a gradient to the target's clean tokens."""
    views = views_of(mexma, sentences)
    clean, masked = views.split()
    hidden = run_packed(mexma.model, views.batch, "bucketed").detach().requires_grad_()
    tokens = len(clean.input_ids)
    starts = clean.cu_seqlens[:-1].long()
    states = mexma.head(hidden[tokens:], hidden[starts][views.partners], masked, "bucketed")
    chosen = states[views.masked_tokens[: views.source_labels]]
    words = mexma.model.get_input_embeddings().weight
    losses.unmasking(chosen, words, mexma.head.bias, views.labels[: views.source_labels]).backward()
    assert hidden.grad is not None
    reached = hidden.grad[starts].abs().sum(dim=1) > 0
    assert reached[views.target_rows].sum() >= 7  # a sentence may have no masked token
    assert not reached[views.source_rows].any()


def test_almost_nothing_masked(mexma: Mexma, sentences: dict[str, list[str]]) -> None:
    mexma.masking = Masking(1e-9, 0.8, 0.1)
    terms = mexma(views_of(mexma, sentences))
    assert float(terms["unmask_source"].detach()) == float(terms["unmask_target"].detach()) == 0
    assert float(terms["alignment"].detach()) > 0


def test_one_pair_is_a_batch(mexma: Mexma, sentences: dict[str, list[str]]) -> None:
    terms = mexma(views_of(mexma, {side: rows[:1] for side, rows in sentences.items()}))
    assert float(terms["koleo"].detach()) == 0
    assert all(torch.isfinite(term) for term in terms.values())


def test_a_contrastive_weight_brings_its_term(mexma: Mexma, sentences: dict[str, list[str]]) -> None:
    assert "contrastive" not in mexma.weights and "contrastive" not in mexma(views_of(mexma, sentences))
    settings = MexmaSettings(name="mexma", contrastive=0.5, head=Head(layers=1, heads=4, ffn=64))
    other = Mexma(mexma.encoder, settings).eval()
    assert other.weights["contrastive"] == 0.5
    assert set(other(views_of(other, sentences))) == set(other.weights)
