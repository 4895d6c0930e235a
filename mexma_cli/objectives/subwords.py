"""What the tokens of a vocabulary are made of: letter n-grams, and smaller tokens."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence

import torch
from anyascii import anyascii
from tokenizers import pre_tokenizers

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.errors import MexmaError

WORD_START = pre_tokenizers.Metaspace().replacement
"""Stands before the first token of a word in a Unigram vocabulary."""
_NO_VOWELS = str.maketrans("", "", "aeiouyj")
SHORTEST_SPLIT = 4
"""Letters of the shortest token that is split."""


class Parts:
    """A row of integers for each token, of different lengths.

    Attributes:
        counts: int64 [vocabulary], length of each row.
    """

    def __init__(self, rows: Sequence[Sequence[int]]) -> None:
        self.counts = torch.tensor([len(row) for row in rows])
        self._flat = torch.tensor([part for row in rows for part in row])
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


def ngrams(piece: str, sizes: Sequence[int], consonants: Sequence[int] = ()) -> set[str]:
    """N-grams of one token as the tokeniser writes it, spelled in lower-case Latin letters.

    So a Russian or Greek name has n-grams of its English form. `<` stands for the start of a word. The whole
    spelling counts as one more, that tokens with and without a word's start share.

    Args:
        consonants: Sizes of n-grams of the spelling without vowels, marked with `#`; its whole is one too.
    """
    spelled = anyascii(piece.replace(WORD_START, "<")).lower()
    parts = _windows(spelled, sizes) | {f"={spelled.removeprefix('<')}"}
    if consonants:
        bare = spelled.translate(_NO_VOWELS)
        parts |= {f"#{part}" for part in _windows(bare, consonants) | {f"={bare.removeprefix('<')}"}}
    return parts


def _windows(text: str, sizes: Sequence[int]) -> set[str]:
    return {text[i : i + size] for size in sizes for i in range(len(text) - size + 1)}


def token_ngrams(
    encoder: SentenceEncoder, sizes: Sequence[int], consonants: Sequence[int] = ()
) -> tuple[Parts, int]:
    """The n-grams of each token, those of one token only left out, and how many different ones there are."""
    special = set(encoder.tokenizer.all_special_tokens)
    found = [set() if piece in special else ngrams(piece, sizes, consonants) for piece in _pieces(encoder)]
    tokens_with = Counter(ngram for row in found for ngram in row)
    shared = sorted(ngram for ngram, tokens in tokens_with.items() if tokens > 1)
    places = {ngram: place for place, ngram in enumerate(shared)}
    return Parts([sorted(places[ngram] for ngram in row if ngram in places) for row in found]), len(shared)


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
    return Parts(rows)


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
