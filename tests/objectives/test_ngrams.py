"""Letter n-grams of tokens."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.objectives.ngrams import Ngrams, ngrams


def test_ngrams_of_a_token() -> None:
    assert ngrams("▁abcd", [3]) == {"<ab", "abc", "bcd", "=abcd"}
    assert ngrams("a", [3, 4]) == {"=a"}


def test_other_scripts_share_ngrams_with_latin() -> None:
    shared = ngrams("▁Москва", [3]) & ngrams("▁moskva", [3])
    assert shared == ngrams("▁moskva", [3])
    assert "=nino" in ngrams("▁niño", [3])


@given(st.text(max_size=12), st.lists(st.integers(1, 6), max_size=3))
def test_ngrams_are_of_the_sizes_asked_for(piece: str, sizes: list[int]) -> None:
    parts = ngrams(piece, sizes)
    assert {len(part) for part in parts if not part.startswith("=")} <= set(sizes)
    assert sum(part.startswith("=") for part in parts) >= 1


@pytest.fixture(scope="module")
def encoder(tiny_encoder: Path) -> SentenceEncoder:
    return SentenceEncoder.load(str(tiny_encoder), "cpu")


def test_tokens_with_a_common_ngram_have_it_in_common(encoder: SentenceEncoder) -> None:
    """Against plain sets, for tokens in any order; those of one token alone are left out."""
    table = Ngrams(encoder, [2, 3])
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
    alone = ngrams("▁only-this-token-has-it", [12]) - {part for p in pieces for part in ngrams(p, [12])}
    assert alone and table.count < sum(len(part) for part in expected)
