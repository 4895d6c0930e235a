"""Training on an encoder with n-gram embeddings of split words: they are in the batch as they are in use."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.encoder.model.attention import run_packed
from mexma_cli.objectives.bag.settings import BagSettings
from mexma_cli.objectives.masking import Masking, masked_views
from mexma_cli.objectives.mexma.loss import Mexma
from mexma_cli.objectives.mexma.settings import Head, MexmaSettings
from mexma_cli.objectives.views import StackedSides, TokenPairs, Vocabulary
from tests.examples import demo_pairs, untrained_bag

PAIRS = [tuple(pair.split("\t")) for pair in demo_pairs(12)]
ALL = Masking(0.99, 1.0, 0.0)


@pytest.fixture(scope="module")
def encoder() -> SentenceEncoder:
    """Of few tokens, so that most words of the pairs are in pieces."""
    return untrained_bag(BagSettings(name="bag", ngrams=[2, 3], keep_ngrams=True)).export()


@pytest.fixture(scope="module")
def pairs(encoder: SentenceEncoder) -> list[tuple[np.ndarray, np.ndarray]]:
    """As `prepare` has them: in pieces, without <s> and </s>."""
    sides = ([ids[1:-1] for ids in encoder.tokenize(side)] for side in zip(*PAIRS, strict=True))
    return list(zip(*sides, strict=True))


@torch.no_grad()
def test_sentences_have_the_vectors_that_they_have_in_use(
    encoder: SentenceEncoder, pairs: list[tuple[np.ndarray, np.ndarray]]
) -> None:
    views = StackedSides.of(TokenPairs(pairs), Vocabulary.of(encoder, ngrams=True)).views()
    hidden = run_packed(encoder.model, views.batch, encoder.backend)
    found = hidden[views.batch.cu_seqlens[:-1].long()].numpy()
    for rows, texts in zip((views.source_rows, views.target_rows), zip(*PAIRS, strict=True), strict=True):
        np.testing.assert_allclose(found[rows.numpy()], encoder.embed(texts), atol=1e-4)


def test_split_words_are_seen_and_never_sought(
    encoder: SentenceEncoder, pairs: list[tuple[np.ndarray, np.ndarray]]
) -> None:
    """A head over the vocabulary cannot find them; and a sentence is the same in every process's batch."""
    size = encoder.model.config.vocab_size
    in_pieces = masked_views(TokenPairs(pairs), Vocabulary.of(encoder, ngrams=False), ALL)
    views = masked_views(TokenPairs(pairs), Vocabulary.of(encoder, ngrams=True), ALL)
    clean, masked = views.split()
    assert views.batch.extra_embeddings is not None and len(views.batch.extra_embeddings) > 20
    assert int(clean.input_ids.max()) == size + len(views.batch.extra_embeddings) - 1
    split = clean.input_ids >= size
    assert torch.equal(split, masked.input_ids >= size)
    assert int(views.labels.max()) < size and int((~split).sum()) > len(views.labels) > 20
    assert in_pieces.batch.extra_embeddings is None and int(in_pieces.batch.input_ids.max()) < size
    assert set(in_pieces.identities.tolist()) == set(views.identities.tolist())
    for rows in ("source_rows", "target_rows"):
        same = [getattr(one, rows) for one in (in_pieces, views)]
        assert torch.equal(in_pieces.identities[same[0]], views.identities[same[1]])


def test_mexma_learns_from_them(encoder: SentenceEncoder, pairs: list[tuple[np.ndarray, np.ndarray]]) -> None:
    """The terms depend on the split words' vectors, and gradients go through the layers that read them."""
    mexma = Mexma(encoder, MexmaSettings(name="mexma", head=Head(layers=1, heads=4, ffn=64, dropout=0.0)))
    views = mexma.batch(TokenPairs(pairs))
    assert views.batch.extra_embeddings is not None
    views.batch.extra_embeddings.requires_grad_()
    terms = mexma(views)
    sum(terms.values()).backward()
    assert (
        views.batch.extra_embeddings.grad is not None
        and views.batch.extra_embeddings.grad.abs().sum(dim=1).min() > 0
    )
    words = encoder.model.get_input_embeddings().weight
    assert words.grad is not None and words.grad.isfinite().all()
