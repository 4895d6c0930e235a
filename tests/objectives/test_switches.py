"""The ablations' switches: which states of the encoder a loss term reaches, and no others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.objectives.mexma import loss as module
from mexma_cli.objectives.mexma.loss import Mexma
from mexma_cli.objectives.mexma.settings import Head, MexmaSettings
from tests.objectives.formulas import info_nce
from tests.objectives.pairs import views_of

ONE_SIDE = {"symmetric": False, "alpha": 0.0, "gamma": 0.0}


class Seen:
    """One pass of an objective, and where each term's gradient arrives among the encoder's outputs.

    The encoder's states are cut off from what made them, so that a gradient shows at the state which
    the loss itself has read.
    """

    def __init__(
        self,
        folder: Any,
        sentences: dict[str, list[str]],
        monkeypatch: pytest.MonkeyPatch,
        **switches: Any,
    ) -> None:
        encoder = SentenceEncoder.load(str(folder), "cpu")
        torch.manual_seed(0)
        settings = MexmaSettings(name="mexma", head=Head(layers=1, heads=4, ffn=64), **switches)
        objective = Mexma(encoder, settings).eval()
        self.views = views_of(objective, sentences)
        self.clean, self.masked = self.views.split()

        def cut(*arguments: Any) -> torch.Tensor:
            self.hidden = run_packed(*arguments).detach().requires_grad_()
            return self.hidden

        run_packed = module.run_packed
        monkeypatch.setattr(module, "run_packed", cut)
        self.terms = objective(self.views)
        assert set(self.terms) == set(objective.weights)

    def reached(self, term: str) -> set[int]:
        """Tokens of the batch that get a gradient from a term."""
        (gradient,) = torch.autograd.grad(
            self.terms[term], self.hidden, retain_graph=True, allow_unused=True, materialize_grads=True
        )
        return set(gradient.abs().sum(dim=1).nonzero()[:, 0].tolist())

    @property
    def tokens(self) -> int:
        return len(self.clean.input_ids)

    def clean_vectors(self, rows: torch.Tensor) -> set[int]:
        return set(self.clean.cu_seqlens[rows].tolist())

    def masked_vectors(self) -> set[int]:
        return set((self.tokens + self.masked.cu_seqlens[:-1]).tolist())

    def of_side(self, source: bool) -> torch.Tensor:
        """Where the chosen tokens of the one side stand, or of the other."""
        count = self.views.source_labels
        return self.views.masked_tokens[:count] if source else self.views.masked_tokens[count:]

    def masked_words(self, source: bool) -> set[int]:
        """Tokens of the masked sentences of one side that have a chosen token, but for the first token."""
        borders = self.masked.cu_seqlens.tolist()
        holders = set(np.searchsorted(borders, self.of_side(source).numpy(), side="right") - 1)
        return {self.tokens + t for i in holders for t in range(borders[i] + 1, borders[i + 1])}

    def contexts(self, source: bool) -> set[int]:
        """Clean vectors of the translations of those sentences."""
        borders = self.masked.cu_seqlens.tolist()
        holders = np.searchsorted(borders, self.of_side(source).numpy(), side="right") - 1
        return self.clean_vectors(self.views.partners[np.unique(holders)])


@pytest.fixture
def see(tiny_encoder: Any, sentences: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch) -> Any:
    return lambda **switches: Seen(tiny_encoder, sentences, monkeypatch, **switches)


@pytest.mark.parametrize("side", ["source", "target"])
@pytest.mark.parametrize("switches", [{}, ONE_SIDE], ids=["symmetric", "one side"])
@pytest.mark.parametrize("tokens", [True, False])
@pytest.mark.parametrize("sentences_too", [True, False])
def test_unmasking_reaches_what_its_switches_let_it(
    see: Any, switches: dict[str, Any], side: str, tokens: bool, sentences_too: bool
) -> None:
    if not (tokens or sentences_too) and "alpha" in switches:
        pytest.skip("a recipe in which nothing reaches the encoder is refused")
    seen = see(token_gradients=tokens, sentence_gradients=sentences_too, **switches)
    source = side == "source"
    expected = set()
    if tokens:
        expected |= seen.masked_words(source)
    if sentences_too:
        expected |= seen.contexts(source)
    assert seen.reached(f"unmask_{side}") == expected
    assert bool(expected) == (tokens or sentences_too)


@pytest.mark.parametrize("tokens", [True, False])
def test_alignment_reaches_both_clean_vectors(see: Any, tokens: bool) -> None:
    seen = see(token_gradients=tokens)
    assert seen.reached("alignment") == seen.clean_vectors(torch.arange(16)) == seen.reached("koleo")


@pytest.mark.parametrize("tokens", [True, False])
@pytest.mark.parametrize("switches", [{}, {"symmetric": False, "gamma": 0.0}], ids=["symmetric", "one side"])
def test_masked_alignment_reaches_masked_and_clean_vectors(
    see: Any, switches: dict[str, Any], tokens: bool
) -> None:
    seen = see(align="masked", token_gradients=tokens, **switches)
    count = len(seen.views.partners)
    assert count == (16 if seen.views.source_rows.numel() else 8)
    assert seen.reached("alignment") == seen.clean_vectors(torch.arange(count)) | seen.masked_vectors()
    hidden = seen.hidden.detach().numpy()
    masked = hidden[seen.tokens + seen.masked.cu_seqlens[:-1].numpy()]
    clean = hidden[seen.clean.cu_seqlens[:-1].numpy()][seen.views.partners.numpy()]
    assert float(seen.terms["alignment"].detach()) == pytest.approx(((masked - clean) ** 2).mean(), rel=1e-5)


@pytest.mark.parametrize("margin", [0.0, 0.3])
def test_the_contrastive_term_compares_clean_vectors(see: Any, margin: float) -> None:
    seen = see(contrastive=1.0, margin=margin, temperature=0.1)
    assert seen.reached("contrastive") == seen.clean_vectors(torch.arange(16))
    firsts = seen.hidden.detach().numpy()[seen.clean.cu_seqlens[:-1].numpy()]
    source, target = (firsts[rows.numpy()] for rows in (seen.views.source_rows, seen.views.target_rows))
    expected = np.mean(info_nce(source, target, 0.1, margin))
    assert float(seen.terms["contrastive"].detach()) == pytest.approx(expected, rel=1e-4)


def test_one_side_has_no_other_terms(see: Any) -> None:
    assert set(see(**ONE_SIDE).terms) == {"unmask_source", "unmask_target"}


@pytest.mark.parametrize("key", ["alpha", "gamma", "contrastive"])
def test_one_side_has_no_two_clean_vectors(key: str) -> None:
    with pytest.raises(ValidationError, match=f"these must be 0: {key}"):
        MexmaSettings(name="mexma", **(ONE_SIDE | {key: 0.1}))


def test_a_loss_that_does_not_reach_the_encoder_is_refused() -> None:
    nothing = {"alpha": 0.0, "gamma": 0.0}
    MexmaSettings(name="mexma", sentence_gradients=False, **nothing)
    for unmasking in ({"beta": 0.0}, {"token_gradients": False, "sentence_gradients": False}):
        with pytest.raises(ValidationError, match="no term of the loss reaches the encoder"):
            MexmaSettings(name="mexma", **nothing, **unmasking)


def test_without_token_gradients_the_encoder_learns_from_clean_sentences_alone(
    tiny_encoder: Any, sentences: dict[str, list[str]]
) -> None:
    """The parameters' gradient is that of a masked half which the encoder has not even seen."""
    encoder = SentenceEncoder.load(str(tiny_encoder), "cpu")
    settings = MexmaSettings(name="mexma", token_gradients=False, head=Head(layers=1, heads=4, ffn=64))
    objective = Mexma(encoder, settings).eval()
    views = views_of(objective, sentences)
    (objective(views)["unmask_source"] + objective(views)["unmask_target"]).backward()
    layer = [p for name, p in encoder.model.named_parameters() if "layer." in name]
    ours = [p.grad for p in layer]

    clean, masked = views.split()
    for p in objective.parameters():
        p.grad = None
    with torch.no_grad():
        states = module.run_packed(objective.model, masked, encoder.backend)
    context = module.run_packed(objective.model, clean, encoder.backend)[clean.cu_seqlens[:-1].long()]
    head = objective.head(states, context[views.partners], masked, encoder.backend)[views.masked_tokens]
    for side in (slice(views.source_labels), slice(views.source_labels, None)):
        objective._unmasking(head[side], views.labels[side]).backward(retain_graph=True)
    assert any(gradient.abs().max() > 1e-4 for gradient in ours)
    for gradient, p in zip(ours, layer, strict=True):
        torch.testing.assert_close(gradient, p.grad, rtol=1e-3, atol=1e-6)
