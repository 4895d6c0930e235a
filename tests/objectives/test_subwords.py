"""What tokens are made of."""

from __future__ import annotations

import json

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.objectives.subwords import WORD_START, ngrams, token_ngrams, token_splits


def test_ngrams_of_a_token() -> None:
    assert ngrams("▁abcd", [3]) == {"<ab", "abc", "bcd", "=abcd"}
    assert ngrams("a", [3, 4]) == {"=a"}


def test_consonants_of_kindred_words() -> None:
    """Milk in Russian, Belarusian and Czech, which share no longer n-gram of all letters."""
    assert ngrams("▁abcd", [], [3]) == {"#<bc", "#bcd", "#=bcd", "=abcd"}
    milk = [ngrams(word, [3], [3, 4]) for word in ("▁moloko", "▁malako", "▁mleko")]
    assert {"#=mlk", "#<ml", "#mlk", "#<mlk"} == milk[0] & milk[1] & milk[2]
    assert ngrams("▁aia", [], [1]) == {"=aia", "#=", "#<"}


def test_other_scripts_share_ngrams_with_latin() -> None:
    shared = ngrams("▁Москва", [3]) & ngrams("▁moskva", [3])
    assert shared == ngrams("▁moskva", [3])
    assert "=nino" in ngrams("▁niño", [3])


@given(
    st.text(max_size=12) | st.text("▁aeioubcd#=<жñ漢", max_size=12),
    *[st.lists(st.integers(1, 6), max_size=3)] * 2,
)
def test_ngrams_are_of_the_sizes_asked_for(piece: str, sizes: list[int], consonants: list[int]) -> None:
    plain = ngrams(piece, sizes)
    assert {len(part) for part in plain if not part.startswith("=")} <= set(sizes)
    assert sum(part.startswith("=") for part in plain) >= 1
    more = ngrams(piece, sizes, consonants) - plain
    assert {len(part) - 1 for part in more if not part.startswith("#=")} <= set(consonants)
    assert not any(vowel in part for part in more for vowel in "aeiou")


@pytest.fixture(scope="module")
def encoder() -> SentenceEncoder:
    return SentenceEncoder.load("mini", "cpu")


def test_tokens_with_a_common_ngram_have_it_in_common(encoder: SentenceEncoder) -> None:
    """Against plain sets, for tokens in any order; those of one token alone are left out."""
    table, count = token_ngrams(encoder, [2, 3])
    pieces = encoder.tokenizer.convert_ids_to_tokens(range(encoder.model.config.vocab_size))
    special = set(encoder.tokenizer.all_special_tokens)
    tokens = torch.randperm(len(pieces), generator=torch.Generator().manual_seed(0))[:100]
    flat, starts = table.of(tokens)
    assert table.counts[tokens].sum() == len(flat)
    found = [set(part.tolist()) for part in torch.tensor_split(flat, starts[1:])]
    expected = [set() if pieces[i] in special else ngrams(pieces[i], [2, 3]) for i in tokens.tolist()]
    for i in range(100):
        for j in range(i):
            assert len(found[i] & found[j]) == len(expected[i] & expected[j])
    assert int(flat.max()) < count
    assert sum(len(part) for part in found) < sum(len(part) for part in expected)  # one token's own are out


def test_a_split_spells_its_token(encoder: SentenceEncoder) -> None:
    """In tokens of the vocabulary, with a higher score than any other split of a few that are tried."""
    splits = token_splits(encoder)
    pieces = encoder.tokenizer.convert_ids_to_tokens(range(encoder.model.config.vocab_size))
    special = set(encoder.tokenizer.all_special_tokens)
    split = 0
    for token, piece in enumerate(pieces):
        parts = splits.of(torch.tensor([token]))[0].tolist()
        if parts == [token]:
            continue
        split += 1
        assert piece not in special and token not in parts and len(piece.removeprefix(WORD_START)) >= 4
        spelled = "".join(pieces[part] for part in parts)
        assert spelled.removeprefix(WORD_START) == piece.removeprefix(WORD_START)
    assert split > 5000


def test_splits_are_the_likeliest(encoder: SentenceEncoder) -> None:
    """Against all splits into two and three."""
    vocabulary = dict(json.loads(encoder.tokenizer.backend_tokenizer.to_str())["model"]["vocab"])
    pieces = encoder.tokenizer.convert_ids_to_tokens(range(encoder.model.config.vocab_size))
    splits = token_splits(encoder)
    compared = 0
    for token in range(1000, len(pieces), 50):
        piece = pieces[token]
        parts = [pieces[part] for part in splits.of(torch.tensor([token]))[0].tolist()]
        if "".join(parts) != piece or len(parts) < 2:
            continue
        mine = sum(vocabulary[part] for part in parts)
        for i in range(1, len(piece)):
            for j in range(i + 1, len(piece) + 1):
                other = [part for part in (piece[:i], piece[i:j], piece[j:]) if part]
                if all(part in vocabulary for part in other):
                    assert mine >= sum(vocabulary[part] for part in other) - 1e-9
                    compared += 1
    assert compared > 50
