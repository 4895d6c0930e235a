"""What the tokens of a vocabulary are made of: letter n-grams, and smaller tokens."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import torch

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.encoder.spelling import WORD_START, ngram_keys
from mexma_cli.errors import MexmaError

SHORTEST_SPLIT = 4
"""Letters of the shortest token that is split."""


class Parts:
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
        device, tokens = tokens.device, tokens.cpu()
        counts = self.counts[tokens]
        starts = counts.cumsum(0) - counts
        within = torch.arange(int(counts.sum())) - starts.repeat_interleave(counts)
        return self._flat[self._starts[tokens].repeat_interleave(counts) + within].to(device), starts.to(
            device
        )


def token_ngrams(
    encoder: SentenceEncoder, sizes: Sequence[int], consonants: Sequence[int]
) -> tuple[Parts, np.ndarray]:
    """The n-grams of each token as places in a table, and the table's keys, uint32 and ascending.

    N-grams of one token only are left out.
    """
    pieces, special = _pieces(encoder), set(encoder.tokenizer.all_special_tokens)
    tokens = [token for token, piece in enumerate(pieces) if piece not in special]
    keys, counts = ngram_keys([pieces[token] for token in tokens], sizes, consonants)
    owners = np.repeat(tokens, counts)
    once = np.unique(np.stack([keys, owners]).astype(np.int64), axis=1)[0]
    found, tokens_with = np.unique(once, return_counts=True)
    table = found[tokens_with > 1].astype(np.uint32)
    kept = np.isin(keys, table)
    return Parts(np.searchsorted(table, keys[kept]), np.bincount(owners[kept], minlength=len(pieces))), table


def word_starts(encoder: SentenceEncoder) -> torch.Tensor:
    """Whether each token begins a word, bool [vocabulary]."""
    return torch.tensor([piece.startswith(WORD_START) for piece in _pieces(encoder)])


def token_splits(encoder: SentenceEncoder) -> Parts:
    """For each token its likeliest segmentation into smaller ones; itself where it is short or has none.

    Raises:
        MexmaError: The tokeniser has no scores (it is not a Unigram model).
    """
    model = json.loads(encoder.tokenizer.backend_tokenizer.to_str())["model"]
    if model["type"] != "Unigram":
        raise MexmaError(f"`split` needs a Unigram tokeniser, and this one is {model['type']}")
    scores = {piece: score for piece, score in model["vocab"]}
    special = set(encoder.tokenizer.all_special_tokens)
    ids = encoder.tokenizer.get_vocab()
    rows = []
    for token, piece in enumerate(_pieces(encoder)):
        smaller = [] if piece in special else _segments(piece, scores)
        rows.append([ids[part] for part in smaller if part != WORD_START] or [token])
    return Parts([part for row in rows for part in row], [len(row) for row in rows])


def _segments(piece: str, scores: dict[str, float]) -> list[str]:
    """Viterbi over all segmentations but the piece itself; [] if there is none."""
    if len(piece.removeprefix(WORD_START)) < SHORTEST_SPLIT:
        return []
    best: list[tuple[float, list[str]] | None] = [(0.0, [])] + [None] * len(piece)
    for end in range(1, len(piece) + 1):
        for start in range(end):
            part, before = piece[start:end], best[start]
            if part == piece or part not in scores or before is None:
                continue
            score = before[0] + scores[part]
            found = best[end]
            if found is None or score > found[0]:
                best[end] = (score, [*before[1], part])
    whole = best[-1]
    return whole[1] if whole else []


def _pieces(encoder: SentenceEncoder) -> list[str]:
    pieces: list[str] = encoder.tokenizer.convert_ids_to_tokens(range(encoder.model.config.vocab_size))
    return pieces
