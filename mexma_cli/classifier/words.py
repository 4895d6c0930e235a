"""The words of two texts as vectors: which words of a sentence have a counterpart in its translation, and
where."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import islice, repeat

import numpy as np

from mexma_cli.store.spool import Ragged, RaggedSpool, Spool, distinct, flat, slices_of
from mexma_cli.text.characters import SIGN, SPACED

EmbedWords = Callable[[Sequence[str]], np.ndarray]
"""N words to vectors, float32 [N, dim]."""

_WORD = re.compile(rf"{SIGN}|[^{SPACED}]+")
_MOST = 60  # words of a sentence that are looked at
_SAMPLE, _QUANTILE = 600, 0.93  # words of the other text, of which a sentence has about fifteen
_SURE = 0.4  # in cosine above what chance gives: a word that has its counterpart there
_APART = 0.3  # of words that are paired at random, in lengths of a sentence; counts as one word does
_ROWS, _LINES = 1 << 13, 1 << 11
VOCABULARY = 1 << 22


class Words:
    """The words of N sentences. A word is embedded when it is first looked up: those of sentences that are in
    no possible pair never are.

    Args:
        listed: Every different word of a text, V.
        embed: The encoder.

    Attributes:
        words: Of each sentence, as places among the different words.
        rarity: float32 [V], the logarithm of one by the share of sentences that have the word.
        chance: float32 [V], the best cosine that the word has in a sentence of the other text by chance, once
            it was looked up.
        sample: float32 [n, dim], words of the other text, by which this is estimated.
    """

    def __init__(self, words: Ragged, listed: list[str], rarity: np.ndarray, embed: EmbedWords) -> None:
        self.words, self.rarity = words, rarity
        self.sample = np.empty((0, 1), np.float32)
        self.chance = np.full(len(listed), np.nan, np.float32)
        self._listed, self._embed = listed, embed
        self._vectors, self._places = Spool(np.float16), np.full(len(listed), -1)
        self._common = np.zeros(0, np.float32)

    def look_up(self, words: np.ndarray) -> np.ndarray:
        """Vectors of different words, without what all of the text's first ones have in common: float32
        [n, dim], of unit length."""
        if not self._vectors.rows and len(words):
            self._keep(np.arange(min(_ROWS, len(self._listed))))
        new = words[self._places[words] < 0]
        for part in slices_of(len(new), _ROWS):
            self._keep(new[part])
        dim = max(len(self._common), 1)
        found = self._vectors.array().reshape(-1, dim)[self._places[words]].astype(np.float32)
        if len(self.sample):
            lacking = np.flatnonzero(np.isnan(self.chance[words]))
            for part in slices_of(len(lacking), _ROWS):
                some = lacking[part]
                self.chance[words[some]] = _chance(found[some], self.sample)
        return found

    def _keep(self, words: np.ndarray) -> None:
        """Embed words, of which the text's first ones come first: they say what all have in common."""
        vectors = self._embed([self._listed[word] for word in words.tolist()])
        if not self._vectors.rows:
            self._common = vectors.mean(axis=0)
        centred = vectors - self._common
        norms = np.linalg.norm(centred, axis=1, keepdims=True)
        self._places[words] = self._vectors.rows // len(self._common) + np.arange(len(words))
        self._vectors.write(
            np.divide(centred, norms, out=np.zeros_like(centred), where=norms > 0).reshape(-1)
        )


def words_of(texts: tuple[Iterable[str], Iterable[str]], embed: EmbedWords) -> tuple[Words, Words]:
    """The words of the sentences of two texts. The first `VOCABULARY` different words of a text count; their
    vectors are on disk."""
    found = []
    for rows, ids, often in map(_indexed, texts):
        rarity = np.log(len(rows.ends) / (often + 0.5)).astype(np.float32)
        found.append(Words(rows, list(ids), rarity, embed))
    samples = []
    for one in found:
        count = len(one.rarity)
        samples.append(one.look_up(np.linspace(0, count - 1, min(_SAMPLE, count)).astype(np.int64)))
    found[0].sample, found[1].sample = samples[::-1]
    return found[0], found[1]


def _indexed(texts: Iterable[str]) -> tuple[Ragged, dict[str, int], np.ndarray]:
    """The words of each sentence, the place of each word, and how many sentences have it, float32 [V]."""
    ids: dict[str, int] = {}
    often, spool, rest = np.zeros(0, np.int64), RaggedSpool(np.int32), iter(texts)
    while block := list(islice(rest, _LINES)):
        words, counts = flat(_WORD.findall(text.lower())[:_MOST] for text in block)
        new = [word for word in dict.fromkeys(words) if word not in ids][: VOCABULARY - len(ids)]
        ids.update(zip(new, range(len(ids), len(ids) + len(new)), strict=True))
        word = np.fromiter(map(ids.get, words, repeat(-1)), np.int64, len(words))
        row = np.repeat(np.arange(len(block)), counts)[word >= 0]
        word = word[word >= 0]
        spool.write(word, np.bincount(row, minlength=len(block)))
        once = distinct(row * VOCABULARY + word) % VOCABULARY
        often = np.append(often, np.zeros(len(new), np.int64)) + np.bincount(once, minlength=len(ids))
    return spool.ragged(), ids, often.astype(np.float32)


def _chance(vectors: np.ndarray, sample: np.ndarray) -> np.ndarray:
    """The quantile `_QUANTILE` of the cosines of each word with a sample, float32 [n]."""
    place, share = divmod(_QUANTILE * (len(sample) - 1), 1)
    above = np.partition(vectors @ sample.T, int(place), axis=1)[:, int(place) :]
    lower, following = above[:, 0], above[:, 1:].min(axis=1, initial=np.inf)
    # np.quantile takes four times as long.
    return np.asarray(lower + share * (following - lower) if share else lower, np.float32)


def paired(own: Words, other: Words, source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """The words of both sentences of N pairs that are each other's nearest, and whether they stand in the
    same places.

    A word is paired by as much as its cosine is above what chance gives, from 0 to 1; else by 0.

    Returns:
        float32 [N, 5]: the share, by rarity, of the source's words that are paired; the same of the target's;
        how far apart paired words are, in lengths of a sentence; how rare the words of the source are, and of
        the target.
    """
    found = np.empty((len(source), 5), np.float32)
    for part in slices_of(len(source), _ROWS):
        found[part] = _paired((own, source[part]), (other, target[part]))
    return found


def _paired(*sides: tuple[Words, np.ndarray]) -> np.ndarray:
    every = [distinct(side.words.at(distinct(rows))[0]) for side, rows in sides]  # the different words
    vectors = [side.look_up(words) for (side, _), words in zip(sides, every, strict=True)]
    held = [side.words.at(rows) for side, rows in sides]
    places = [np.searchsorted(words, one) for words, (one, _) in zip(every, held, strict=True)]
    counts = [side.words.counts(rows) for side, rows in sides]
    starts = [np.append(0, np.cumsum(count)) for count in counts]
    (here, there), ends = places, [start.tolist() for start in starts]
    best = [np.zeros(len(one), np.float32) for one in places]  # of each word in the other sentence
    nearest = [np.full(len(one), -1) for one in places]  # where that is, among all words of the other side
    for pair in range(len(sides[0][1])):
        first, second = (slice(*end[pair : pair + 2]) for end in ends)
        if first.start < first.stop and second.start < second.stop:
            cosines = vectors[0][here[first]] @ vectors[1][there[second]].T
            best[0][first], best[1][second] = cosines.max(axis=1), cosines.max(axis=0)
            nearest[0][first] = cosines.argmax(axis=1) + second.start
            nearest[1][second] = cosines.argmax(axis=0) + first.start
    pairs = len(sides[0][1])
    found, sums = np.zeros((pairs, 5), np.float32), np.zeros((2, pairs))
    for side, ((of, _), (words, owner)) in enumerate(zip(sides, held, strict=True)):
        to, rarity = nearest[side], of.rarity[words]
        back = nearest[1 - side][to] if len(nearest[1 - side]) else to
        mutual = (to >= 0) & (back == np.arange(len(to)))
        weight = rarity * mutual * ((best[side] - of.chance[words]) / _SURE).clip(0, 1)
        rarities = np.bincount(owner, rarity, pairs)
        found[:, side] = np.bincount(owner, weight, pairs) / np.maximum(rarities, 1e-6)
        found[:, 3 + side] = rarities
        if side == 0 and len(to):
            own, other = (
                (np.arange(len(place)) - start[row] + 0.5) / count[row]
                for place, start, count, (_, row) in zip(places, starts, counts, held, strict=True)
            )
            apart = abs(own - other[to]) if len(other) else np.zeros(len(own))
            sums[0] = np.bincount(owner, weight, pairs)
            sums[1] = np.bincount(owner, weight * apart, pairs)
    found[:, 2] = (sums[1] + _APART) / (sums[0] + 1)
    return found
