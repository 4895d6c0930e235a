"""Quantise n-grams so that words are right: what one vector is off, the others of its words make up for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.sparse import csc_array

from mexma_cli.encoder.ngrams import NgramEmbeddings, ngram_keys
from mexma_cli.numerics.quantised import QuantisedRows

ROUNDS = 3
GROUPS = 16
"""N-grams are rounded anew in so many groups, each after the one before."""


def rounded(whole: NgramEmbeddings, kept: NgramEmbeddings, words: Sequence[str], part: int) -> QuantisedRows:
    """The kept n-grams' vectors, a byte for `part` numbers, such that words are close to what they were.

    Each n-gram is moved halfway from its own vector to where its words would be right, and rounded there.

    Args:
        whole, kept: All n-grams, and those that stay.
        words: As the tokeniser writes them.
    """
    own = kept.vectors[:].astype(np.float32)
    coded = QuantisedRows.of(own, part)
    rows, sums = coded[:], _sums(kept, words)
    left = _sums(whole, words) @ whole.vectors[:].astype(np.float32) - sums @ rows  # what the words are off
    weights = np.maximum(sums.power(2).sum(axis=0), 1e-9)[:, None]
    group = np.random.default_rng(0).integers(0, GROUPS, len(rows))
    for turn in range(ROUNDS * GROUPS):
        these = np.flatnonzero(group == turn % GROUPS)
        right = rows[these] + sums[:, these].T @ left / weights[these]
        new = QuantisedRows.of((right + own[these]) / 2, part, coded.codebook)
        coded.codes[these], coded.lengths[these] = new.codes, new.lengths
        left -= sums[:, these] @ (new[:] - rows[these])
        rows[these] = new[:]
    return coded


def _sums(ngrams: NgramEmbeddings, words: Sequence[str]) -> csc_array:
    """What a word takes of each n-gram, float32 [words, N]: `NgramEmbeddings.embed` adds these up."""
    keys, counts = ngram_keys(words, ngrams.sizes, ngrams.consonants)
    known = np.isin(keys, ngrams.keys)
    owners = np.repeat(np.arange(len(words)), counts)[known]
    shares = np.bincount(owners, minlength=len(words))[owners] ** -0.5
    places = np.searchsorted(ngrams.keys, keys[known])
    return csc_array((shares.astype(np.float32), (owners, places)), (len(words), len(ngrams.keys)))
