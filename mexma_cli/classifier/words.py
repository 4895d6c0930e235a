"""The words of two texts as vectors: which words of a sentence have a counterpart in its translation."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from mexma_cli.classifier.ragged import Ragged, RaggedSpool
from mexma_cli.store.spool import Spool
from mexma_cli.text.characters import SIGN

Embed = Callable[[Sequence[str]], np.ndarray]
"""N words to vectors, float32 [N, dim]."""

_WORD = re.compile(rf"{SIGN}|(?:(?!{SIGN})[^\W_])+")
_MOST = 60  # words of a sentence that are looked at
_SAMPLE, _QUANTILE = 600, 0.93  # words of the other text, of which a sentence has about fifteen
_ALIKE = 0.1  # above what chance gives, in cosine
_ROWS = 1 << 13
VOCABULARY = 1 << 22


@dataclass(frozen=True)
class Words:
    """The words of N sentences.

    Attributes:
        words: Of each sentence, as places in the arrays below.
        vectors: float16 [V, dim], of unit length, of every different word.
        rarity: float32 [V], the logarithm of one by the share of sentences that have the word.
        chance: float32 [V], the best cosine that the word has in a sentence of the other text by chance.
    """

    words: Ragged
    vectors: np.ndarray
    rarity: np.ndarray
    chance: np.ndarray


def words_of(texts: tuple[Iterable[str], Iterable[str]], embed: Embed) -> tuple[Words, Words]:
    """The words of the sentences of two texts; every different word is embedded once.

    The first `VOCABULARY` different words of a text count; the vectors are on disk.

    Raises:
        MexmaError: The temporary disk is full.
    """
    sides = [_indexed(side) for side in texts]
    vectors = [_unit(list(ids), embed) for _, ids, _ in sides]
    found = []
    for (rows, _, often), own, other in zip(sides, vectors, vectors[::-1], strict=True):
        rarity = np.log(len(rows.ends) / (often + 0.5)).astype(np.float32)
        found.append(Words(rows, own, rarity, _chance(own, other)))
    return found[0], found[1]


def _indexed(texts: Iterable[str]) -> tuple[Ragged, dict[str, int], np.ndarray]:
    """The words of each sentence, the place of each word, and how many sentences have it, float32 [V]."""
    ids: dict[str, int] = {}
    often, spool = Counter[int](), RaggedSpool(np.int32)
    block: list[list[int]] = []
    for text in texts:
        row = []
        for word in _WORD.findall(text.lower())[:_MOST]:
            place = ids.get(word)
            if place is None and len(ids) < VOCABULARY:
                place = ids[word] = len(ids)
            if place is not None:
                row.append(place)
        often.update(set(row))
        block.append(row)
        if len(block) == _ROWS:
            spool.write(block)
            block = []
    spool.write(block)
    return spool.ragged(), ids, np.array([often[place] for place in range(len(ids))], np.float32)


def _unit(words: list[str], embed: Embed) -> np.ndarray:
    """Their vectors without what all of the first ones have in common; float16 [V, dim], memory-mapped."""
    spool: Spool | None = None
    common = np.zeros(0, np.float32)
    for start in range(0, len(words), _ROWS):
        vectors = embed(words[start : start + _ROWS])
        if spool is None:
            spool, common = Spool(np.float16), vectors.mean(axis=0)
        centred = vectors - common
        norms = np.linalg.norm(centred, axis=1, keepdims=True)
        spool.write(np.divide(centred, norms, out=np.zeros_like(centred), where=norms > 0).reshape(-1))
    return spool.array().reshape(len(words), -1) if spool else np.empty((0, 1), np.float16)


def _chance(own: np.ndarray, other: np.ndarray) -> np.ndarray:
    """See `Words.chance`."""
    if not len(own) or not len(other):
        return np.zeros(len(own), np.float32)
    sample = other[np.linspace(0, len(other) - 1, min(_SAMPLE, len(other))).astype(np.int64)]
    sample = sample.astype(np.float32)
    found = np.empty(len(own), np.float32)
    for start in range(0, len(own), _ROWS):
        cosines = own[start : start + _ROWS].astype(np.float32) @ sample.T
        found[start : start + _ROWS] = np.quantile(cosines, _QUANTILE, axis=1)
    return found


def _of(side: Words, rows: np.ndarray) -> np.ndarray:
    """The different words of some sentences, ascending."""
    return np.unique(side.words.at(np.unique(rows))[0])


def unexplained(own: Words, other: Words, source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """The rare words of both sentences of N pairs, and how many of them have no counterpart.

    Returns:
        float32 [N, 4]: the share, by rarity, of the source's words whose best cosine in the target is hardly
        above chance; the same of the target's words; how rare the words of the source are, and of the target.
    """
    found = np.zeros((len(source), 4), np.float32)
    starts, ends = own.words.ends[source].tolist(), own.words.ends[source + 1].tolist()
    other_starts, other_ends = other.words.ends[target].tolist(), other.words.ends[target + 1].tolist()
    every, other_every = (_of(side, rows) for side, rows in ((own, source), (other, target)))
    vectors, other_vectors = (
        side.vectors[words].astype(np.float32) for side, words in ((own, every), (other, other_every))
    )
    low, other_low = own.chance[every] + _ALIKE, other.chance[other_every] + _ALIKE
    rarities, other_rarities = own.rarity[every], other.rarity[other_every]
    for pair in range(len(source)):
        words = np.searchsorted(every, own.words.values[starts[pair] : ends[pair]])
        others = np.searchsorted(other_every, other.words.values[other_starts[pair] : other_ends[pair]])
        rarity, other_rarity = rarities[words], other_rarities[others]
        found[pair, 2], found[pair, 3] = rarity.sum(), other_rarity.sum()
        if len(words) and len(others):
            cosines = vectors[words] @ other_vectors[others].T
            found[pair, 0] = rarity[cosines.max(axis=1) < low[words]].sum()
            found[pair, 1] = other_rarity[cosines.max(axis=0) < other_low[others]].sum()
    found[:, :2] /= np.maximum(found[:, 2:], 1e-6)
    return found
