"""What tokens are made of."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.encoder.ngrams.hashing import is_whole, ngram_keys
from mexma_cli.objectives.bag.subwords import token_ngrams


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
        alone = is_whole(pieces[token])  # has no other n-gram
        shared = [key for key in of_each[token].tolist() if tokens_with[key] > 1 or alone]
        assert keys[part.numpy()].tolist() == ([] if pieces[token] in special else shared)
    assert len(flat) < sum(len(of_each[token]) for token in tokens)  # one token's own are out
