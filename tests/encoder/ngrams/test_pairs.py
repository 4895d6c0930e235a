"""Pairs of neighbouring tokens: which there are, and where they stand in what is embedded."""

from __future__ import annotations

import numpy as np
import pytest

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.encoder.ngrams.embeddings import NgramEmbeddings
from mexma_cli.encoder.ngrams.hashing import ngram_keys
from mexma_cli.encoder.ngrams.pairs import PairTokens, joined, kind_of
from mexma_cli.objectives.bag.tokenizer import train_tokenizer
from mexma_cli.settings.training import NewEncoder, TrainTokenizer


@pytest.mark.parametrize(
    ("words", "pairs"),
    [
        ("▁日 ▁本 ▁。 ▁語 ▁人", "日本 語人"),
        ("▁日 ▁アメリカ ▁本", ""),
        ("▁học ▁sinh ▁tot ▁nam ▁nước ▁7", "họcsinh namnước"),
        ("▁nước 語 ▁日 ▁viet", ""),
        ("▁an ▁old ▁house", ""),
    ],
)
def test_neighbours_that_are_pairs(words: str, pairs: str) -> None:
    """Two signs, or a Vietnamese syllable and another word; not across punctuation, names or pieces."""
    pieces = words.split()
    found = np.flatnonzero(joined(np.array([kind_of(piece) for piece in pieces], np.uint8)))
    assert [(pieces[place] + pieces[place + 1]).replace("▁", "") for place in found] == pairs.split()


def test_pairs_stand_behind_their_first_token(encoder_with_pairs: SentenceEncoder) -> None:
    """By their own token, or by the row of an n-gram; those that neither knows are left out."""
    ngrams, backend = encoder_with_pairs.ngrams, encoder_with_pairs.fast_tokenizer.backend
    assert ngrams is not None
    size, vocabulary = backend.get_vocab_size(), backend.get_vocab()
    day, base, word = (vocabulary[f"▁{sign}"] for sign in "日本語")
    tokens = encoder_with_pairs.tokenize(["日本語日", "ab", "本日語"])
    (first, second, third), rows = ngrams.merge_split_words(tokens, backend)
    row = first[4] - size
    assert first.tolist() == [0, day, vocabulary["▁日▁本"], base, size + row, word, day, 2]
    assert second.tolist() == tokens[1].tolist()
    assert third.tolist() == [0, base, day, word, 2]
    expected, known = ngrams.embed(["▁本▁語"])
    assert known.all() and np.array_equal(rows[row], expected[0])
    assert np.isfinite(encoder_with_pairs.embed(["日本語日", "", "本"])).all()


@pytest.fixture
def encoder_with_pairs() -> SentenceEncoder:
    """Of three signs; 日本 is a token, and 本語 an n-gram."""
    text = [(sentence, 1.0) for sentence in ["日本", "語", "ab"] * 3]
    tokenizer = train_tokenizer(TrainTokenizer(vocabulary=300, words=9), lambda: text)
    shape = NewEncoder(layers=1, width=8, heads=1, ffn=8, dropout=0.0)
    encoder = SentenceEncoder.new(shape, tokenizer, max_tokens=20, seed=0)
    keys, _ = ngram_keys(["▁本▁語"], [3], [])
    encoder.ngrams = NgramEmbeddings(keys, np.ones((1, 8), np.float16), [3], [], 1.0, 1.0)
    return encoder


def test_a_vocabulary_without_pairs_has_none_of_its_own() -> None:
    places, halves, tokens = PairTokens(["", "▁日", "▁本"]).of(np.array([0, 1, 2, 0]))
    assert (places.tolist(), halves.tolist(), tokens.tolist()) == ([1], [[1, 2]], [-1])
