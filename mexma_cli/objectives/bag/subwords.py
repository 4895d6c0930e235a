"""The letter n-grams that the tokens of a vocabulary are made of."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.encoder.ngrams.hashing import WORD_START, is_whole, ngram_keys, pieces_of


class TokenNgrams:
    """A row of integers for each token, of different lengths.

    Attributes:
        counts: int64 [vocabulary], length of each row.
    """

    def __init__(self, flat: Sequence[int] | np.ndarray, counts: Sequence[int] | np.ndarray) -> None:
        self.counts = torch.as_tensor(counts)
        self._flat = torch.as_tensor(flat)
        self._starts = self.counts.cumsum(0) - self.counts

    def of(self, tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The rows of T tokens one after the other, int64 [N], and where each begins, int64 [T]."""
        self.counts, self._flat, self._starts = (
            table.to(tokens.device) for table in (self.counts, self._flat, self._starts)
        )  # only the first time: they stay where tokens are
        counts = self.counts[tokens]
        starts, total = counts.cumsum(0) - counts, int(counts.sum())
        # The shift of a token's whole row, from its place in the answer to that in the table.
        shift = (self._starts[tokens] - starts).repeat_interleave(counts, output_size=total)
        return self._flat[torch.arange(total, device=tokens.device) + shift], starts


def token_ngrams(
    encoder: SentenceEncoder, sizes: Sequence[int], consonants: Sequence[int]
) -> tuple[TokenNgrams, np.ndarray]:
    """The n-grams of each token as places in a table, and the table's keys, uint32 and ascending.

    N-grams of one token only are left out, but for those of tokens that have no other (`is_whole`).
    """
    pieces = pieces_of(encoder.fast_tokenizer.backend)
    tokens = [token for token, piece in enumerate(pieces) if piece]
    keys, counts = ngram_keys([pieces[token] for token in tokens], sizes, consonants)
    owners = np.repeat(tokens, counts)
    once = np.unique(np.stack([keys, owners]).astype(np.int64), axis=1)[0]
    found, tokens_with = np.unique(once, return_counts=True)
    whole = np.array([is_whole(piece) for piece in pieces])
    table = found[(tokens_with > 1) | np.isin(found, keys[whole[owners]])].astype(np.uint32)
    kept = np.isin(keys, table)
    return TokenNgrams(
        np.searchsorted(table, keys[kept]), np.bincount(owners[kept], minlength=len(pieces))
    ), table


def word_starts(encoder: SentenceEncoder) -> torch.Tensor:
    """Whether each token begins a word, bool [vocabulary]."""
    return torch.tensor([piece.startswith(WORD_START) for piece in pieces_of(encoder.fast_tokenizer.backend)])
