"""The vocabulary of a Unigram tokeniser: pieces that are learned, or whole words first."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import islice

import numpy as np
from tokenizers import Tokenizer, models, trainers

from mexma_cli.encoder.ngrams.pairs import joined, kind_of

Weighed = tuple[str, float]
"""A sentence, and how often it is seen in training against the others."""
SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
"""XLM-R's first ids; <mask> is its last."""
DIGITS = 3
"""Decimal places of scores: exact enough, and short to write."""
_STEP = 1e-4
"""Between the scores of characters that the trainer of Unigram models adds in the end."""


def train_pieces(tokenizer: Tokenizer, text: Iterable[str], vocabulary: int) -> None:
    """Learn a vocabulary of this size from a text, with `SPECIAL` and all of its characters in it.

    The trainer adds numbers in another order in every run. That order decides the last digits of scores, the
    order of equally likely pieces, and the scores of characters that are no pieces otherwise: these differ by
    `_STEP` from one to the next, above the lowest score. Here scores are rounded, these characters have the
    same score, and pieces of equal score are in alphabetical order, so that the same text has the same
    tokeniser.
    """
    trainer = trainers.UnigramTrainer(
        vocab_size=vocabulary, special_tokens=list(SPECIAL), unk_token="<unk>", show_progress=False
    )
    tokenizer.train_from_iterator(text, trainer)
    scores = dict(json.loads(tokenizer.to_str())["model"]["vocab"])
    special = [(token, scores.pop(token)) for token in SPECIAL]
    last = min(scores.values())
    rare = last + _STEP * sum(len(piece) == 1 for piece in scores)
    found = {
        piece: _rounded(last if len(piece) == 1 and score < rare else score)
        for piece, score in scores.items()
    }
    by_score = sorted(found.items(), key=lambda item: (-item[1], item[0]))
    tokenizer.model = _model(dict([*special, *by_score]))


def word_model(tokenizer: Tokenizer, text: Iterable[Weighed], words: int, vocabulary: int) -> models.Unigram:
    """A model in which the most frequent words are one token each, and the first; of others it has pieces.

    Frequent pairs of words (`encoder.ngrams.pairs`) count as words: tokens that no text is split into.

    A word's score is the logarithm of its share of the text, or more, so that it is likelier than its pieces.

    Args:
        tokenizer: Its normaliser and pre-tokeniser say what a word is.
        words: So many at most; numbers and punctuation count as words.
        vocabulary: Tokens in all, `SPECIAL` among them.
    """
    counts, pairs = _counts(tokenizer, text)
    scores = _merged_pieces(sorted(counts), vocabulary - words)
    counts |= pairs
    by_count = sorted(counts, key=lambda word: (-counts[word], word))
    chosen = list(islice((word for word in by_count if word not in scores), words))
    whole = chosen + [word for word in by_count if word in scores]
    total = sum(counts.values())
    scores |= {word: _rounded(math.log(counts[word] / total)) for word in chosen}
    whole = [word for word in whole if word not in pairs]
    while split := _split(_model(scores), whole):  # again, since a word's pieces may have been raised
        scores |= {
            word: _rounded(sum(scores[part] for part in parts) + 10**-DIGITS) for word, parts in split.items()
        }
    special = [(token, scores.pop(token)) for token in SPECIAL]
    by_use = sorted(scores.items(), key=lambda item: (-counts.get(item[0], 0), -item[1], item[0]))
    return _model(dict([*special, *by_use]))


def _merged_pieces(words: Sequence[str], vocabulary: int) -> dict[str, float]:
    """Pieces by byte-pair merges, and the logarithm of each one's share of the words' pieces.

    Every word counts once, since it is rare words that pieces are for. The trainer of Unigram models is no
    better at it, and takes longer.
    """
    pieces = Tokenizer(models.BPE())
    trainer = trainers.BpeTrainer(vocab_size=vocabulary, special_tokens=list(SPECIAL), show_progress=False)
    pieces.train_from_iterator(words, trainer)
    used = Counter(pieces.get_vocab().keys())
    for word in words:
        used.update(token.value for token in pieces.model.tokenize(word))
    for token in SPECIAL:
        del used[token]
    total = used.total()
    return dict.fromkeys(SPECIAL, 0.0) | {
        piece: _rounded(math.log(count / total)) for piece, count in used.items()
    }


def _counts(tokenizer: Tokenizer, text: Iterable[Weighed]) -> tuple[dict[str, float], dict[str, float]]:
    """How often each word is seen, and each pair of words."""
    normalise, split = tokenizer.normalizer.normalize_str, tokenizer.pre_tokenizer.pre_tokenize_str
    counts: defaultdict[str, float] = defaultdict(float)
    pairs: defaultdict[str, float] = defaultdict(float)
    kinds: dict[str, int] = {}
    for sentence, weight in text:
        words = [word for word, _ in split(normalise(sentence))]
        for word in words:
            counts[word] += weight
            if word not in kinds:
                kinds[word] = kind_of(word)
        together = joined(np.array([kinds[word] for word in words], np.uint8))
        for place in np.flatnonzero(together).tolist():
            pairs[words[place] + words[place + 1]] += weight
    return counts, pairs


def _split(model: models.Unigram, words: Sequence[str]) -> dict[str, list[str]]:
    """The words that are not one token, and their pieces."""
    found = ((word, [token.value for token in model.tokenize(word)]) for word in words)
    return {word: parts for word, parts in found if len(parts) > 1}


def _rounded(score: float) -> float:
    return round(score, DIGITS)


def _model(scores: dict[str, float]) -> models.Unigram:
    return models.Unigram(list(scores.items()), unk_id=SPECIAL.index("<unk>"))
