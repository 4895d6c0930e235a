"""The words of two texts as vectors: which words of a sentence have a counterpart in its translation."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from mexma_cli.classifier.sentences import Ragged
from mexma_cli.text.unspaced import SIGN

Embed = Callable[[Sequence[str]], np.ndarray]
"""N words to vectors, float32 [N, dim]."""

_WORD = re.compile(rf"{SIGN}|(?:(?!{SIGN})[^\W_])+")
_MOST = 60  # words of a sentence that are looked at
_SAMPLE, _QUANTILE = 600, 0.93  # words of the other text, of which a sentence has about fifteen
_ALIKE = 0.1  # above what chance gives, in cosine
_ROWS = 1 << 13


@dataclass(frozen=True)
class Words:
    """The words of N sentences.

    Attributes:
        words: Of each sentence, as places in the arrays below.
        vectors: float32 [V, dim], of unit length, of every different word.
        rarity: float32 [V], the logarithm of one by the share of sentences that have the word.
        chance: float32 [V], the best cosine that the word has in a sentence of the other text by chance.
    """

    words: Ragged
    vectors: np.ndarray
    rarity: np.ndarray
    chance: np.ndarray


def words_of(texts: tuple[Sequence[str], Sequence[str]], embed: Embed) -> tuple[Words, Words]:
    """The words of the sentences of two texts; every different word is embedded once."""
    sides = [_indexed(side) for side in texts]
    vectors = [_unit(embed(list(ids))) for _, ids, _ in sides]
    found = []
    for (rows, ids, often), own, other in zip(sides, vectors, vectors[::-1], strict=True):
        count = np.array([often[place] for place in range(len(ids))], np.float32)
        rarity = np.log((len(rows.ends)) / (count + 0.5)).astype(np.float32)
        found.append(Words(rows, own, rarity, _chance(own, other)))
    return found[0], found[1]


def _indexed(texts: Iterable[str]) -> tuple[Ragged, dict[str, int], Counter[int]]:
    ids: dict[str, int] = {}
    often, rows = Counter[int](), list[list[int]]()
    for text in texts:
        rows.append([ids.setdefault(word, len(ids)) for word in _WORD.findall(text.lower())[:_MOST]])
        often.update(set(rows[-1]))
    return Ragged.of(rows), ids, often


def _unit(vectors: np.ndarray) -> np.ndarray:
    centred = vectors - vectors.mean(axis=0, keepdims=True) if len(vectors) else vectors
    norms = np.linalg.norm(centred, axis=1, keepdims=True)
    return np.divide(centred, norms, out=np.zeros_like(centred), where=norms > 0)


def _chance(own: np.ndarray, other: np.ndarray) -> np.ndarray:
    """See `Words.chance`."""
    if not len(own) or not len(other):
        return np.zeros(len(own), np.float32)
    sample = other[np.linspace(0, len(other) - 1, min(_SAMPLE, len(other))).astype(np.int64)]
    found = np.empty(len(own), np.float32)
    for start in range(0, len(own), _ROWS):
        found[start : start + _ROWS] = np.quantile(own[start : start + _ROWS] @ sample.T, _QUANTILE, axis=1)
    return found


def unexplained(own: Words, other: Words, source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """The rare words of both sentences of N pairs, and how many of them have no counterpart.

    Returns:
        float32 [N, 4]: the share, by rarity, of the source's words whose best cosine in the target is hardly
        above chance; the same of the target's words; how rare the words of the source are, and of the target.
    """
    found = np.zeros((len(source), 4), np.float32)
    starts, ends = own.words.ends[source].tolist(), own.words.ends[source + 1].tolist()
    other_starts, other_ends = other.words.ends[target].tolist(), other.words.ends[target + 1].tolist()
    low, other_low = own.chance + _ALIKE, other.chance + _ALIKE
    for pair in range(len(source)):
        words = own.words.values[starts[pair] : ends[pair]]
        others = other.words.values[other_starts[pair] : other_ends[pair]]
        rarity, other_rarity = own.rarity[words], other.rarity[others]
        found[pair, 2], found[pair, 3] = rarity.sum(), other_rarity.sum()
        if len(words) and len(others):
            cosines = own.vectors[words] @ other.vectors[others].T
            found[pair, 0] = rarity[cosines.max(axis=1) < low[words]].sum()
            found[pair, 1] = other_rarity[cosines.max(axis=0) < other_low[others]].sum()
    found[:, :2] /= np.maximum(found[:, 2:], 1e-6)
    return found
