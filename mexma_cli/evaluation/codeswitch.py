"""Code-switched sentences from a bilingual dictionary (ORACLE paper, appendix C.1)."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy as np

from mexma_cli.errors import MexmaError
from mexma_cli.text.lines import is_blank, read_lines

HINT = "MUSE's dictionaries (github.com/facebookresearch/MUSE, de-en.txt): a word, a space, its translation"

Dictionary = dict[str, tuple[str, ...]]
"""Words in lower case to their translations."""


@dataclass(frozen=True)
class Switched:
    """A code-switched set.

    Attributes:
        rows: Places of the sentences in the text, rising.
        sentences: The same with words of the other language in them.
        usable: Lines of the text that have a word of the dictionary, each text once.
        words, replaced: Words in the chosen sentences, and how many were replaced.
    """

    rows: list[int]
    sentences: list[str]
    usable: int
    words: int
    replaced: int


def read_dictionary(path: Path) -> Dictionary:
    """A dictionary in MUSE's format; translations that are the word itself are left out.

    Raises:
        MexmaError: A line that is not two words, or no lines.
    """
    found: dict[str, dict[str, None]] = {}
    for number, line in enumerate(read_lines(path), 1):
        if is_blank(line):
            continue
        words = line.split()
        if len(words) != 2:
            raise MexmaError(
                f"{path}, line {number}: {len(words)} words where a word and its translation should be, "
                f"{line[:60]!r}: not MUSE's format",
                HINT,
            )
        word, translation = words
        if word.lower() != translation.lower():
            found.setdefault(word.lower(), {})[translation] = None
    if not found:
        raise MexmaError(f"{path} has no translations", HINT)
    return {word: tuple(translations) for word, translations in found.items()}


def code_switched(
    source: Sequence[str], target: Sequence[str], dictionary: Dictionary, count: int, rate: float, seed: int
) -> Switched:
    """Replace words of sentences by translations, drawn among those that the dictionary has.

    The paper says no rate; its examples swap a sixth to four sevenths of the words. Each known word is
    replaced with probability `rate`, and one at random where none was. What becomes of a sentence depends on
    the seed, its row and itself only. Sentences that either side has twice count once, the first.

    Args:
        source, target: Line n of one is the translation of line n of the other.
        count: Sentences to draw; fewer where there are fewer.

    Raises:
        MexmaError: No sentence has a word of the dictionary.
    """
    usable, seen_source, seen_target = [], set(), set()
    for row, (sentence, translation) in enumerate(zip(source, target, strict=True)):
        if is_blank(sentence) or is_blank(translation):
            continue
        if sentence in seen_source or translation in seen_target:
            continue
        if any(word.lower() in dictionary for word in _pieces(sentence)):
            usable.append(row)
            seen_source.add(sentence)
            seen_target.add(translation)
    if not usable:
        raise MexmaError(
            f"none of {len(source):,} sentences has a word of the dictionary",
            "is it from the text's language? Words are what stands between spaces and punctuation",
        )
    drawn = np.random.default_rng(seed).permutation(len(usable))[:count]
    rows = [usable[place] for place in sorted(drawn.tolist())]
    sentences, words, replaced = [], 0, 0
    for row in rows:
        text, number = _switch(source[row], dictionary, rate, np.random.default_rng([seed, row]))
        sentences.append(text)
        replaced += number
        words += sum(_is_letter(piece[0]) for piece in _pieces(source[row]))
    return Switched(rows, sentences, len(usable), words, replaced)


def _switch(
    sentence: str, dictionary: Dictionary, rate: float, random: np.random.Generator
) -> tuple[str, int]:
    """A sentence with translations in it, and how many."""
    pieces = _pieces(sentence)
    known = [place for place, piece in enumerate(pieces) if piece.lower() in dictionary]
    chosen = [place for place in known if random.random() < rate] or [known[random.integers(len(known))]]
    for place in chosen:
        translations = dictionary[pieces[place].lower()]
        pieces[place] = translations[random.integers(len(translations))]
    return "".join(pieces), len(chosen)


def _pieces(sentence: str) -> list[str]:
    """Words, and what is between them, in order; together they are the sentence."""
    return ["".join(run) for _, run in groupby(sentence, _is_letter)]


def _is_letter(character: str) -> bool:
    """Letters, digits and marks upon them (vowel signs, accents)."""
    return character.isalnum() or unicodedata.category(character).startswith("M")
