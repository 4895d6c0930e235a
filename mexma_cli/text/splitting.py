"""Paragraphs into sentences, as character spans: sentencex, Moses' rules, or SaT."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache, partial

from mexma_cli.errors import MexmaError, require

Span = tuple[int, int]
"""Start and end of a sentence in its paragraph, in characters."""
Splitter = Callable[[str], list[Span]]
"""A paragraph to its sentences in order, without the white space around them."""

# Where benchmarks/split.py measured sentencex to be better than Moses' rules (docs/documents.md):
# languages with ordinal numbers such as `3.`, and scripts with marks of their own, but not Marathi.
_SENTENCEX = "bul ces deu est hrv hun isl lit mkd pol ron slk slv srp ton urd"
_SENTENCEX_SCRIPTS = "Armn Beng Deva Ethi Geor Guru Hans Hant Jpan Mymr"


def default_splitter(language: str) -> str:
    """The splitter that measured best for a language, a FLORES-200 code or ``und`` (docs/documents.md)."""
    base, _, script = language.partition("_")
    own_marks = script in _SENTENCEX_SCRIPTS.split() and base != "mar"
    return "sentencex" if base in _SENTENCEX.split() or own_marks else "moses"


def splitter(name: str, language: str, model: str | None = None) -> Splitter:
    """Make a splitter by its name in `settings.stages`, ``auto`` for `default_splitter`. Refused: SaT without
    a `model`, a folder, or without wtpsplit.

    Args:
        language: FLORES-200 code, or ``und``: then the rules for English are taken.
    """
    name = default_splitter(language) if name == "auto" else name
    if name == "sat":
        return _sat(model)
    import langcodes

    base = language.partition("_")[0]  # both libraries know ISO 639-1 codes, where there is one
    tag = "en" if base == "und" else langcodes.standardize_tag(base, macro=True).partition("-")[0]
    return _moses(tag) if name == "moses" else partial(_sentencex, tag)


_WIDE_SPACE = re.compile(r"[^\S ]")
_WINDOW, _AHEAD = 1024, 256
"""Characters that sentencex gets at a time, and those at their end that it sees and nothing is decided in."""


def _sentencex(tag: str, paragraph: str) -> list[Span]:
    """Split by sentencex, in windows that begin where a sentence does. In a whole paragraph a quotation mark
    that is not closed takes a time that grows with the square of the length, and hides the ends of many
    sentences behind it.

    Any white space is shown as a space: at a capital letter, a wide space and a full stop sentencex panics.
    """
    from sentencex import get_sentence_boundaries

    paragraph = _WIDE_SPACE.sub(" ", paragraph)

    def ends_in(window: str) -> list[int]:
        return [found["end_index"] for found in get_sentence_boundaries(tag, window)]

    ends: list[int] = []
    start, decided = 0, _WINDOW - _AHEAD
    while len(paragraph) - start > _WINDOW:
        found = [end for end in ends_in(paragraph[start : start + _WINDOW]) if end <= decided]
        ends += [start + end for end in found]
        start += found[-1] if found and found[-1] >= decided // 2 else decided
    return _stripped(paragraph, ends + [start + end for end in ends_in(paragraph[start:])])


def _sat(model: str | None) -> Splitter:
    require("wtpsplit", "sat", "--splitter sat")
    if model is None:
        raise MexmaError("--splitter sat needs a model", "name the folder of one: --splitter-model sat-3l-sm")
    from wtpsplit import SaT

    loaded = SaT(model)

    def split(paragraph: str) -> list[Span]:
        ends, end = [], 0
        for sentence in loaded.split(paragraph):
            end += len(sentence)
            ends.append(end)
        return _stripped(paragraph, ends)

    return split


def _stripped(paragraph: str, ends: list[int]) -> list[Span]:
    """Spans up to each end, without the white space at both sides."""
    spans, start = [], 0
    for end in ends:
        sentence = paragraph[start:end]
        kept = sentence.strip()
        if kept:
            first = start + len(sentence) - len(sentence.lstrip())
            spans.append((first, first + len(kept)))
        start = end
    return spans


_END = re.compile(r"[.?!][^\w ]*+(?: +(?=(.)))?")
"""Where Moses' rules may end a sentence: at a space after a mark, and what perhaps closes it. Marks without a
space are passed over together: a search from each of them takes a time that grows with their square."""
_AROUND = re.compile(r"[^ ]*(?: +[^\w ]+(?= ))* +[^\w ]*[^ ]?")
"""The text that Moses' rules read from the mark on: quotation marks, also alone, and how a word begins."""
_WORD = re.compile(r"(?<![\w.-])\w+$")
_ANY_WORD = "zzzz"
_LONGEST = 500
"""Where words are longer, no sentence ends; the rules would take a time that grows with the square."""


def _moses(tag: str) -> Splitter:
    """Moses' rules, which are asked about the few words around each possible end only.

    To them all words are alike but abbreviations, so most answers are known already. That makes them ten
    times as fast as on whole paragraphs, and the answers stay the same.
    """
    from importlib.resources import files

    from sentence_splitter import SentenceSplitter

    folder = files("sentence_splitter") / "non_breaking_prefixes"
    if not (folder / f"{tag}.txt").is_file():  # no abbreviations of that language are known
        tag = "en"
    lines = (folder / f"{tag}.txt").read_text(encoding="utf-8").split("\n")
    abbreviations = {line.partition("#")[0].strip() for line in lines}
    rules = SentenceSplitter(tag)

    @lru_cache(maxsize=1 << 16)
    def ends_within(text: str) -> list[int]:
        return _ends(text.split(" "), rules.split(text)) if len(text) <= _LONGEST else []

    def split(paragraph: str) -> list[Span]:
        ends: list[int] = []

        def look(first: int, words: str) -> None:
            place, passed = first - 1, 0
            for space in ends_within(words):
                while passed < space:
                    place, passed = paragraph.index(" ", place + 1), passed + 1
                ends.append(place)

        words, start, last = "", 0, 0  # those that are looked at together, and where they stand
        for mark in _END.finditer(paragraph):
            at = mark.start()
            if mark[1] is None or mark[1].islower() or at < last:
                continue
            around = _AROUND.match(paragraph, at)
            assert around is not None
            first = paragraph.rfind(" ", last, at) + 1  # 0: in the middle of a word that is looked at already
            word = paragraph[max(first or last, at - _LONGEST) : at]
            found = _WORD.search(word) if first or not last else None
            if found and found[0] not in abbreviations:
                word = word[: found.start()] + _ANY_WORD
            if first > last:
                look(start, words)
                words, start = word + around[0], first
            else:
                words += paragraph[last:first] + word + around[0]
            last = around.end()
        look(start, words)
        return _stripped(paragraph, [*ends, len(paragraph)])

    return split


def _ends(words: list[str], sentences: list[str]) -> list[int]:
    """The spaces, counted from 1, where the rules have ended sentences, which have lost some of theirs."""
    ends = []
    word = letters = wanted = 0
    for sentence in sentences[:-1]:
        wanted += _letters(sentence)
        while letters < wanted:
            letters += _letters(words[word])
            word += 1
        ends.append(word)
    return ends


def _letters(text: str) -> int:
    return sum(map(len, text.split()))
