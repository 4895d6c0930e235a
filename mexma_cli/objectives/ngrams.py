"""Letter n-grams of tokens, in Latin letters: what makes rare words of related spelling alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import torch
from anyascii import anyascii
from tokenizers import pre_tokenizers

from mexma_cli.encoder.encoder import SentenceEncoder

WORD_START = pre_tokenizers.Metaspace().replacement
"""Stands before the first token of a word in a Unigram vocabulary."""


class Ngrams:
    """The n-grams of each token in a vocabulary, those of one token only left out.

    A token is spelled in lower-case Latin letters (`anyascii`), so that a Russian or Greek name has n-grams
    of its English form; `<` stands for the start of a word. The whole spelling counts as one more n-gram,
    that tokens with and without a word's start share.

    Args:
        encoder: Whose vocabulary.
        sizes: Letters of the n-grams.

    Attributes:
        count: Different n-grams, G.
        counts: int64 [vocabulary], n-grams of each token.
    """

    def __init__(self, encoder: SentenceEncoder, sizes: Sequence[int]) -> None:
        pieces = encoder.tokenizer.convert_ids_to_tokens(range(encoder.model.config.vocab_size))
        special = set(encoder.tokenizer.all_special_tokens)
        found = [set() if piece in special else ngrams(piece, sizes) for piece in pieces]
        tokens_with = Counter(ngram for ngrams_ in found for ngram in ngrams_)
        shared = sorted(ngram for ngram, tokens in tokens_with.items() if tokens > 1)
        places = {ngram: place for place, ngram in enumerate(shared)}
        rows = [sorted(places[ngram] for ngram in ngrams_ if ngram in places) for ngrams_ in found]
        self.count = len(shared)
        self.counts = torch.tensor([len(row) for row in rows])
        self._flat = torch.tensor([place for row in rows for place in row])
        self._starts = self.counts.cumsum(0) - self.counts

    def of(self, tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The n-grams of T tokens one after the other, int64 [N], and where each token's begin, int64 [T]."""
        device = tokens.device
        tokens = tokens.cpu()
        counts = self.counts[tokens]
        starts = counts.cumsum(0) - counts
        within = torch.arange(int(counts.sum())) - starts.repeat_interleave(counts)
        return self._flat[self._starts[tokens].repeat_interleave(counts) + within].to(device), starts.to(
            device
        )


def ngrams(piece: str, sizes: Sequence[int]) -> set[str]:
    """N-grams of one token as the tokeniser writes it."""
    spelled = anyascii(piece.replace(WORD_START, "<")).lower()
    parts = {spelled[i : i + size] for size in sizes for i in range(len(spelled) - size + 1)}
    return parts | {f"={spelled.removeprefix('<')}"}
