"""Code-switched sentences from a bilingual dictionary (ORACLE paper, appendix C.1)."""

from __future__ import annotations

import logging
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy as np

from mexma_cli.errors import MexmaError
from mexma_cli.evaluation.reading import filled_lines, parsed_lines, read_aligned, read_all_lines
from mexma_cli.files import fingerprint, make_folder, together, whole_file, write_json_atomic
from mexma_cli.settings.stages import Switching
from mexma_cli.text.amounts import counted
from mexma_cli.text.lines import is_blank

log = logging.getLogger(__name__)

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
    """A dictionary in MUSE's format, two words a line; translations that are the word itself are left out."""
    found: dict[str, dict[str, None]] = {}
    for word, translation in parsed_lines(path, filled_lines(path), _two_words, HINT):
        if word.lower() != translation.lower():
            found.setdefault(word.lower(), {})[translation] = None
    if not found:
        raise MexmaError(f"{path} has no translations", HINT)
    return {word: tuple(translations) for word, translations in found.items()}


def _two_words(line: str) -> list[str]:
    if len(words := line.split()) != 2:
        what = f"{len(words)} words where a word and its translation should be"
        raise ValueError(f"{what}, {line[:60]!r}: not MUSE's format")
    return words


def code_switched(
    source: Sequence[str], target: Sequence[str], dictionary: Dictionary, settings: Switching
) -> Switched:
    """Replace words of sentences by translations, drawn among those that the dictionary has; line n of the
    source is the translation of line n of the target. Refused if no sentence has a word of the dictionary.

    The paper says no rate; its examples swap a sixth to four sevenths of the words. Each known word is
    replaced with probability `settings.rate`, and one at random where none was. A sentence's replacements
    depend on the seed, its row and itself only. Sentences that either side has twice count once, the first.
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
    drawn = np.random.default_rng(settings.seed).permutation(len(usable))[: settings.sentences]
    rows = [usable[place] for place in sorted(drawn.tolist())]
    sentences, words, replaced = [], 0, 0
    for row in rows:
        random = np.random.default_rng([settings.seed, row])
        text, number = _switch(source[row], dictionary, settings.rate, random)
        sentences.append(text)
        replaced += number
        words += sum(_is_letter(piece[0]) for piece in _pieces(source[row]))
    return Switched(rows, sentences, len(usable), words, replaced)


def write_code_switched(
    texts: tuple[Path, Path], dictionary: Path, output: Path, code: str, settings: Switching
) -> None:
    """Make a code-switched set of two files, and write it into a folder under the names that `output_paths`
    says. Line n of the first, in the language of `code`, is the translation of line n of the second; other
    lengths are refused."""
    words = read_dictionary(dictionary)
    english = read_all_lines(texts[1])
    other = read_aligned(*texts, len(english))
    made = code_switched(other, english, words, settings)
    facts = {
        "source": str(texts[0]),
        "source_checksum": fingerprint(other),  # of what was read: a pipe cannot be read again
        "target": str(texts[1]),
        "target_checksum": fingerprint(english),
        "dictionary": str(dictionary),
        "dictionary_checksum": fingerprint(words),
        "rate": settings.rate,
        "seed": settings.seed,
        "sentences": len(made.rows),
        "usable": made.usable,
        "words": made.words,
        "replaced": made.replaced,
        "lines": [row + 1 for row in made.rows],
    }
    make_folder(output)
    chosen = [english[row] for row in made.rows]
    with together():
        # First, so that without it there is no text that could be taken for LASER's.
        write_json_atomic(output / f"codeswitch.{code}.json", facts)
        for path, lines in zip(output_paths(output, code), (made.sentences, chosen), strict=True):
            with whole_file(path) as file:
                file.write("".join(f"{line}\n" for line in lines).encode("utf-8"))
    if len(made.rows) < settings.sentences:
        has = counted(len(made.rows), "sentence has", "sentences have")
        log.warning("only %s a word of the dictionary", has)
    log.info(
        "%s in %s, %s of %s words replaced (%.0f %%)",
        counted(len(made.rows), "sentence"),
        output,
        f"{made.replaced:,}",
        f"{made.words:,}",
        100 * made.replaced / made.words,
    )


def output_paths(folder: Path, code: str) -> list[Path]:
    """The files of a language's set, named as Tatoeba's: the language's own, and English."""
    return [folder / f"tatoeba.{code}-eng.{side}" for side in (code, "eng")]


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
