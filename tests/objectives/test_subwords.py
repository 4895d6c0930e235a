"""What tokens are made of."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest
import torch

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.encoder.spelling import WORD_START, ngram_keys
from mexma_cli.objectives.subwords import token_ngrams, token_splits


@pytest.fixture(scope="module")
def encoder() -> SentenceEncoder:
    return SentenceEncoder.load("mini", "cpu")


def test_tokens_with_a_common_ngram_have_it_in_common(encoder: SentenceEncoder) -> None:
    """For tokens in any order; those of one token alone are left out."""
    table, keys = token_ngrams(encoder, [2, 3], [2])
    assert (np.diff(keys.astype(int)) > 0).all()
    pieces = encoder.tokenizer.convert_ids_to_tokens(range(encoder.model.config.vocab_size))
    special = set(encoder.tokenizer.all_special_tokens)
    tokens = torch.randperm(len(pieces), generator=torch.Generator().manual_seed(0))[:100].tolist()
    every, counts = ngram_keys(pieces, [2, 3], [2])
    of_each = np.split(every, np.cumsum(counts)[:-1])
    tokens_with = Counter(
        key for piece, own in zip(pieces, of_each, strict=True) if piece not in special for key in {*own}
    )
    flat, starts = table.of(torch.tensor(tokens))
    assert table.counts[tokens].sum() == len(flat)
    for token, part in zip(tokens, torch.tensor_split(flat, starts[1:]), strict=True):
        shared = [key for key in of_each[token].tolist() if tokens_with[key] > 1]
        assert keys[part].tolist() == ([] if pieces[token] in special else shared)
    assert len(flat) < sum(len(of_each[token]) for token in tokens)  # one token's own are out


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
