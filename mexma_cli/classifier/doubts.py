"""Why a pair may be no translation, in words and with the places in both sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import numpy as np

from mexma_cli.classifier.sentences import MARKS, NAME_LETTERS, WORD, trigrams_of
from mexma_cli.text.duplicates import copy_reason
from mexma_cli.text.numbers import differing_numbers

Span = tuple[int, int]
"""Where something begins and ends in a sentence, in characters."""
SAMPLE = 2000
"""So many of the best pairs say what is usual in two texts."""
_ALIKE = 0.5  # share of a name's trigrams that its counterpart has
_NAMED = 0.6  # of the names of usual pairs that have a counterpart, where names say anything
_FEWEST = 20  # names, or pairs, that say what is usual
_INSIDE = tuple(",'\u2019&/")
_SOME = 2  # names, of which one may well be a word at the beginning of a quote
_FAR = 3.5  # standard deviations of the ratio of lengths
_PADDING = 5  # characters, so that short sentences may differ more


class Doubt(NamedTuple):
    """One reason: in words, and where it stands in the source and in the target."""

    words: str
    source: Sequence[Span] = ()
    target: Sequence[Span] = ()


@dataclass(frozen=True)
class Doubts:
    """Finds reasons, compared with what is usual in two texts.

    Names are compared only where those of usual pairs have counterparts: not with Chinese, whose writing
    hides them, and not the nouns of German, which are written like names.

    Attributes:
        ratio, spread: Median and standard deviation of the logarithm of target's by source's length.
        names: Whether names without a counterpart are a reason, for those of the source and of the target.
        questions: Whether a question is one in both languages.
        translated: Names that have another form in the other language (England, Saturday): without a
            counterpart in a usual pair.
    """

    ratio: float
    spread: float
    names: tuple[bool, bool]
    questions: bool
    translated: frozenset[str]

    @classmethod
    def usual(cls, pairs: Sequence[tuple[str, str]]) -> Doubts:
        """By some of the best pairs of two texts; by the first `SAMPLE` of them, without copies."""
        pairs = [pair for pair in pairs[:SAMPLE] if copy_reason(*pair) is None]
        ratios = np.array([_ratio(*pair) for pair in pairs] or [0.0])
        ratio = float(np.median(ratios))
        spread = max(0.15, 1.4826 * float(np.median(abs(ratios - ratio))))
        named, translated = [False, False], set[str]()
        for side in (0, 1):
            sides = [(pair[side], pair[1 - side]) for pair in pairs]
            names = [_names(own) for own, _ in sides]
            count = sum(map(len, names))
            alone = [
                own[slice(*span)]
                for spans, (own, other) in zip(names, sides, strict=True)
                for span in _alone(spans, own, other)
            ]
            named[side] = count >= _FEWEST and len(alone) <= (1 - _NAMED) * count
            translated.update(alone)
        asked = [(_asks(source), _asks(target)) for source, target in pairs]
        either = [pair for pair in asked if any(pair)]
        both = sum(map(all, either)) >= _NAMED * len(either)
        return cls(ratio, spread, (named[0], named[1]), bool(either) and both, frozenset(translated))

    def of(self, source: str, target: str) -> list[Doubt]:
        """The reasons why one pair may be no translation, those that weigh most first."""
        return list(self._found(source, target))

    def _found(self, source: str, target: str) -> Iterator[Doubt]:
        if source.strip() and copy_reason(source, target) is not None:
            yield Doubt("copy")
        here, there = differing_numbers(source, target)
        if here and there:
            yield Doubt(f"numbers differ: {_quoted(source, here)} / {_quoted(target, there)}", here, there)
        for side, spans in enumerate((here, there)):
            if spans and not (here and there):
                sentence = (source, target)[side]
                yield Doubt(f"number on one side only: {_quoted(sentence, spans)}", *_sided(side, spans))
        yield from self._about_names(source, target)
        if abs(_ratio(source, target) - self.ratio) > _FAR * self.spread:
            yield Doubt(f"lengths differ: {len(source):,} / {len(target):,} characters")
        if self.questions and _asks(source) != _asks(target):
            yield Doubt("a question on one side only")

    def _about_names(self, source: str, target: str) -> Iterator[Doubt]:
        """Names that are alone on both sides may be each other's translations ("Weißes Haus", "White House"),
        so they are a reason where one side alone has some, or where the sentences share no name at all."""
        if not any(self.names):
            return
        names = _names(source), _names(target)
        here, there = (
            [span for span in _alone(spans, own, other) if own[slice(*span)] not in self.translated]
            for spans, own, other in ((names[0], source, target), (names[1], target, source))
        )
        if here and there:
            shared = len(here) < len(names[0]) or len(there) < len(names[1])
            if all(self.names) and not shared and min(len(here), len(there)) >= _SOME:
                words = f"no name in common: {_quoted(source, here)} / {_quoted(target, there)}"
                yield Doubt(words, here, there)
        elif self.names[0 if here else 1] and (here or there):
            side = 0 if here else 1
            alone, sentence = here or there, (source, target)[side]
            yield Doubt(f"names without counterpart: {_quoted(sentence, alone)}", *_sided(side, alone))


def doubts_in_words(doubts: Sequence[Doubt]) -> str:
    """Reasons in one line."""
    return "; ".join(doubt.words for doubt in doubts)


def _sided(side: int, spans: Sequence[Span]) -> tuple[Sequence[Span], Sequence[Span]]:
    return ((), spans) if side else (spans, ())


def _quoted(sentence: str, spans: Sequence[Span]) -> str:
    return ", ".join(sentence[slice(*span)] for span in spans)


def _ratio(source: str, target: str) -> float:
    return float(np.log((len(target) + _PADDING) / (len(source) + _PADDING)))


def _asks(sentence: str) -> bool:
    return any(mark in sentence for mark in MARKS["question"])


def _names(sentence: str) -> list[Span]:
    """Words that begin with a capital inside the sentence, but not behind a full stop, a quote or a dash."""
    found = []
    for word in islice(WORD.finditer(sentence), 1, None):
        if word[0][0].isupper():
            before = sentence[: word.start()].rstrip()[-1:]
            if before.isalnum() or before in _INSIDE:
                found.append(word)
    letters = np.diff(trigrams_of([word[0] for word in found]).ends)
    return [word.span() for word, count in zip(found, letters, strict=True) if count >= NAME_LETTERS]


def _alone(names: Sequence[Span], sentence: str, other: str) -> list[Span]:
    """Names of a sentence that have no likeness in the other one, as `missing_names` counts them."""
    if not names:
        return []
    there = trigrams_of(WORD.findall(other)).values
    own = trigrams_of([sentence[slice(*span)] for span in names])
    shared = np.append(0, np.cumsum(np.isin(own.values, there)))[own.ends]
    few = np.diff(shared) < _ALIKE * np.diff(own.ends)
    return [span for span, alone in zip(names, few.tolist(), strict=True) if alone]
