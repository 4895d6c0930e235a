"""Words that were hyphenated at the ends of lines, in text that is wrapped over lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import chain, pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import regex

_OPTIONAL = "¬"
"""What programs that read scans write for a hyphen that is there for the end of the line only."""
_LETTERS = r"[\p{L}\p{M}\p{N}]"
_WORD = rf"{_LETTERS}+(?:[-\u2010]{_LETTERS}+)*"
_LINE_END = r"[ \t\u00a0]*\n[ \t\u00a0]*"
_LONGEST = 64
"""Characters on each side of a hyphen that are looked at."""
_PIECE = 1 << 20
"""Characters whose words are counted at a time."""
_SURE = 10
"""Hyphens elsewhere beside a part of a word that are enough to keep one."""
_PREFIX, _LONG = 3, 4
"""Letters of the shortest prefix with a hyphen, and of the shortest part that is a word by itself."""
_FREQUENT = 2000
"""A conjunction is at least one word in so many."""


def with_visible_hyphens(text: str) -> str:
    """A text with a sign that is seen for each soft hyphen in a word at the end of a line."""
    return _pattern(rf"(?<={_LETTERS})\u00ad(?={_LINE_END}{_LETTERS})").sub(_OPTIONAL, text)


def without_line_hyphens(texts: Sequence[str], wrapped: Iterable[int]) -> tuple[list[str], int]:
    """Texts of one language, those in the places `wrapped` with the words put together that a hyphen and a
    line end divide; and how many words.

    Whether the hyphen is the word's own (well-known) is found out by the words of all texts:

    1. without it or with it, whichever is more frequent within lines;
    2. kept beside digits, before a capital letter, behind two of them, and in words with more hyphens;
    3. kept with a space where the second part is frequent and follows ``- `` elsewhere (Vor- und Nachteile);
    4. kept if both parts (prefixes of `_PREFIX` letters, others of `_LONG`) are beside hyphens elsewhere; or
       one is, and both are words of `_LONG` letters; or one is `_SURE` times (anti-, -based);
    5. else taken out, if 1. takes out more hyphens than it keeps. In scripts without capital letters a ``-``
       that 1. does not know stays, with its line end.
    """
    found, joined = list(texts), 0
    places = [place for place in sorted(wrapped) if _ends().search(found[place])]
    if places:
        words = _Words(found, places)
        for place in places:
            found[place], changed = words.without_hyphens(found[place])
            joined += changed
    return found, joined


@cache
def _pattern(pattern: str) -> regex.Pattern[str]:
    import regex  # knows the classes of Unicode

    return regex.compile(pattern)


def _ends() -> regex.Pattern[str]:
    """A hyphen that divides a word, and the line end."""
    return _pattern(rf"(?<={_LETTERS})([-\u2010{_OPTIONAL}]){_LINE_END}(?={_LETTERS})")


class _Words:
    """The words that are within the lines of texts, of which some are wrapped."""

    def __init__(self, texts: Sequence[str], wrapped: Sequence[int]) -> None:
        self._words = Counter[str]()  # whole ones, parts between hyphens, and two such parts
        self._before, self._after, self._following = Counter[str](), Counter[str](), Counter[str]()
        for text in texts:
            for start in range(0, len(text), _PIECE):
                piece = text[start : start + _PIECE].replace("\u2010", "-")
                self._count(_pattern(_WORD).findall(piece), 1)
                self._following.update(_pattern(rf"(?<=\p{{L}})- ({_LETTERS}+)").findall(piece))
        chosen = [texts[place] for place in wrapped]
        self._count(chain.from_iterable(_divided(chosen)), -1)
        self._total = self._words.total()
        surplus = 0  # of hyphens that are no word's own
        for parts in _divided(chosen):
            plain, own = self._times(*parts)
            surplus += (plain > own) - (own > plain)
        self._hyphenates = surplus >= 0

    def _count(self, words: Iterable[str], times: int) -> None:
        for word, count in Counter(words).items():
            count *= times
            self._words[word] += count
            parts = word.split("-") if "-" in word else []
            for first, second in pairwise(parts):
                self._before[first] += count
                self._after[second] += count
                self._words[f"{first}-{second}"] += count * (len(parts) > 2)
            for part in parts:
                self._words[part] += count

    def without_hyphens(self, text: str) -> tuple[str, int]:
        """A text without hyphens at line ends, and in how many words."""
        joined = 0

        def instead(end: regex.Match[str]) -> str:
            nonlocal joined
            between = self._between(end[1], *_around(text, end))
            joined += between is not None and between[-1:] != " "
            return end[0] if between is None else between

        return _ends().sub(instead, text), joined

    def _times(self, whole: str, rest: str) -> tuple[int, int]:
        """How often a word is there without the hyphen and with it, also as it begins a sentence."""
        first, second = whole.rpartition("-")[2], rest.partition("-")[0]

        def times(*words: str) -> int:
            return max(
                sum(self._words[form] for form in {word, word.lower(), word.capitalize()}) for word in words
            )

        return times(first + second, whole + rest), times(f"{first}-{second}", f"{whole}-{rest}")

    def _between(self, hyphen: str, whole: str, rest: str) -> str | None:
        """The text to put between two parts of a word; None keeps the hyphen and the line end."""
        first, second = whole.rpartition("-")[2], rest.partition("-")[0]
        optional = hyphen == _OPTIONAL
        hyphen = "-" if optional else hyphen
        plain, own = self._times(whole, rest)
        if plain > 0 or own > 0:
            return "" if plain >= own else hyphen
        if optional:
            return ""
        if self._following[second] and self._words[second] * _FREQUENT > self._total:
            return f"{hyphen} "
        if first[-1].isnumeric() or second[0].isnumeric() or second[0].isupper() or first[-2:].isupper():
            return hyphen
        if not second[0].islower():
            return None
        beside = (
            self._before[first] if len(first) >= _PREFIX else 0,
            self._after[second] if len(second) >= _LONG else 0,
        )
        are_words = all(len(part) >= _LONG and self._words[part] > 0 for part in (first, second))
        elsewhere = min(beside) > 0 or max(beside) >= _SURE or (max(beside) > 0 and are_words)
        keep = elsewhere or (first, second) != (whole, rest) or not self._hyphenates
        return hyphen if keep else ""


def _divided(texts: Iterable[str]) -> Iterator[tuple[str, str]]:
    return (_around(text, end) for text in texts for end in _ends().finditer(text))


def _around(text: str, end: regex.Match[str]) -> tuple[str, str]:
    """The parts of a word on both sides of a hyphen and a line end."""
    start, stop = end.span()
    before = _pattern(rf"(?r){_WORD}").match(text, max(0, start - _LONGEST), start)
    after = _pattern(_WORD).match(text, stop, stop + _LONGEST)
    assert before is not None and after is not None
    return before[0].replace("\u2010", "-"), after[0].replace("\u2010", "-")
