"""Candidates as features see them: what the neighbours, the sentences and the words of both sides say."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from mexma_cli.classifier.sentences import (
    SentenceFacts,
    count_shared_numbers,
    look_at_sentences,
    missing_names,
)
from mexma_cli.classifier.words import EmbedWords, Words, paired, words_of
from mexma_cli.knn.neighbours import Neighbours
from mexma_cli.languages import UNSTATED
from mexma_cli.mining.candidates import Candidates
from mexma_cli.mining.lists import Lists, Sides, means_of, sides_of
from mexma_cli.mining.margin import margin
from mexma_cli.mining.match import rank_of

Texts = tuple[Callable[[], Iterable[str]], Callable[[], Iterable[str]]]
"""Functions that give the sentences of all rows of source and target; each is called twice at most."""


@dataclass(frozen=True)
class TextFacts:
    """The rows of one text, with what is known of them.

    Attributes:
        lists: Their neighbours.
        means: float32 [rows], the mean cosines of the neighbourhoods.
        sentences: None: features of text are not wanted, or cannot be had.
        words: None: those of words are not.
        texts: The sentences of some rows, int [n], for features of the user's own.
        language: FLORES-200 code.
    """

    lists: Lists
    means: np.ndarray
    sentences: SentenceFacts | None = None
    words: Words | None = None
    texts: Callable[[np.ndarray], list[str]] | None = None
    language: str = UNSTATED


def known_of(
    neighbours: Neighbours | Sides, texts: Texts | None = None, embed: EmbedWords | None = None
) -> tuple[TextFacts, TextFacts]:
    """What the classifier has to know of both texts.

    Args:
        embed: The encoder of the vectors, for words.

    Raises:
        MexmaError: The temporary disk is full, or a file of neighbours or sentences is damaged.
    """
    lists = sides_of(neighbours)
    source, target = (TextFacts(one, means_of(one)) for one in lists)
    if texts is None:
        return source, target
    first, second = words_of((texts[0](), texts[1]()), embed) if embed else (None, None)
    return (
        replace(source, sentences=look_at_sentences(texts[0]()), words=first),
        replace(target, sentences=look_at_sentences(texts[1]()), words=second),
    )


def sentences_of(sides: tuple[TextFacts, TextFacts]) -> int:
    """How many rows of both sides have neighbours, at least 1."""
    return max(sum(int(np.count_nonzero(side.means)) for side in sides), 1)


@dataclass(frozen=True)
class Pairs:
    """N candidates: rows of the source and of the target, int64 [N], and their cosines and margins."""

    candidates: Candidates
    sides: tuple[TextFacts, TextFacts]

    def __len__(self) -> int:
        return len(self.candidates)

    def take(self, places: np.ndarray | slice) -> Pairs:
        """Some of them."""
        return Pairs(self.candidates.take(places), self.sides)

    @cached_property
    def margins(self) -> np.ndarray:
        """Ratio margins, float32 [N]."""
        own, other = self.sides
        found = self.candidates
        return margin(found.cosines, own.means[found.source], other.means[found.target])

    @cached_property
    def rivals(self) -> tuple[np.ndarray, np.ndarray]:
        """By how much the margin is above that of the best other neighbour of the source, and of the target;
        float32 [N], 0 where there is no other."""
        own, other = self.sides
        source, target = self.candidates.source, self.candidates.target
        return self._above(own, other, source, target), self._above(other, own, target, source)

    def _above(self, own: TextFacts, other: TextFacts, rows: np.ndarray, others: np.ndarray) -> np.ndarray:
        cosines, ids = own.lists.at(rows)
        margins = margin(cosines, own.means[rows][:, None], other.means[ids])
        margins = np.where((ids == others[:, None]) | (ids < 0), np.float32(-np.inf), margins)
        best = margins.max(axis=1, initial=-np.inf)
        return np.where(np.isfinite(best), self.margins - best, np.float32(0))

    @cached_property
    def ranks(self) -> tuple[np.ndarray, np.ndarray]:
        """Ranks of the target among the source's neighbours, and vice versa: 1 is the nearest, 0 none."""
        own, other = self.sides
        source, target = self.candidates.source, self.candidates.target
        return rank_of(own.lists.at(source)[1], target), rank_of(other.lists.at(target)[1], source)

    @property
    def sentences(self) -> tuple[SentenceFacts, SentenceFacts]:
        """The sentences of both sides, which must be known."""
        own, other = self.sides[0].sentences, self.sides[1].sentences
        assert own is not None and other is not None
        return own, other

    @cached_property
    def lengths(self) -> tuple[np.ndarray, np.ndarray]:
        """Lengths of both sentences of each pair in characters, float32 [N] each."""
        own, other = self.sentences
        return own.lengths[self.candidates.source], other.lengths[self.candidates.target]

    @cached_property
    def numbers(self) -> tuple[np.ndarray, np.ndarray]:
        """How many numbers only the source has, and only the target, float32 [N] each."""
        own, other = self.sentences
        source, target = self.candidates.source, self.candidates.target
        shared = count_shared_numbers(own.numbers, other.numbers, source, target)
        return own.numbers.counts(source) - shared, other.numbers.counts(target) - shared

    @cached_property
    def missing(self) -> tuple[np.ndarray, np.ndarray]:
        """How many names of the source are not in the target, and the other way round, float32 [N]."""
        own, other = self.sentences
        source, target = self.candidates.source, self.candidates.target
        return missing_names(own, other, source, target), missing_names(other, own, target, source)

    @property
    def texts(self) -> tuple[list[str], list[str]]:
        """The sentences of both sides, which must be at hand."""
        own, other = self.sides[0].texts, self.sides[1].texts
        assert own is not None and other is not None
        return own(self.candidates.source), other(self.candidates.target)

    @property
    def languages(self) -> tuple[str, str]:
        """FLORES-200 codes of both sides."""
        return self.sides[0].language, self.sides[1].language

    @cached_property
    def words(self) -> np.ndarray:
        """The measures of `words.paired`, float32 [N, 5]."""
        own, other = self.sides[0].words, self.sides[1].words
        assert own is not None and other is not None
        return paired(own, other, self.candidates.source, self.candidates.target)
