"""`--clean`: a line as LASER's preprocessing leaves it before the tokeniser, but in its own case.

And the normal forms of Unicode.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import cache
from typing import Any, Literal

_MOSES = {"eng": "en", "deu": "de", "spa": "es", "fra": "fr", "ces": "cs"}
"""The languages with rules of their own, under the names that Moses has for them."""


def normal_form(form: Literal["NFC", "NFKC"], text: str) -> str:
    """`unicodedata.normalize` in a time that grows with the length: for a run of marks that are in no order,
    the standard library's takes the square of their number."""
    if text.isascii():
        return text
    return unicodedata.normalize(form, _long_runs_of_marks().sub(_in_order, text))


@cache
def _long_runs_of_marks() -> Any:
    import regex  # knows the classes of Unicode

    return regex.compile(r"\P{ccc=0}{31,}")


def _in_order(run: Any) -> str:
    """Marks in Unicode's canonical order, if all of them are marks to `unicodedata`, too."""
    marks = [mark for one in run[0] for mark in unicodedata.normalize("NFD", one)]
    classes = list(map(unicodedata.combining, marks))
    return "".join(sorted(marks, key=unicodedata.combining)) if all(classes) else str(run[0])


class _NonPrinting(dict[int, str]):
    """For `str.translate`: category C (control, format, surrogate, private, unassigned) becomes a space."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        self[code] = " " if unicodedata.category(character).startswith("C") else character
        return self[code]


def cleaner(language: str) -> Callable[[str], str]:
    """A function that cleans one line of text in a language (FLORES-200 code, or ``und``).

    It does what LASER does before its SentencePiece model, without the lower-casing: Moses'
    ``remove-non-printing-char.perl`` (every such character becomes a space), then
    ``normalize-punctuation.perl -l LANGUAGE`` as sacremoses has it: quotation marks, dashes, ellipses,
    apostrophes, spaces at brackets and punctuation. English, German, Spanish, French and Czech have rules of
    their own for closing quotation marks and numbers; all other languages, and text whose language is not
    stated, have the common rules only.
    """
    from sacremoses import MosesPunctNormalizer  # a quarter of a second

    base = language.partition("_")[0]
    moses = MosesPunctNormalizer(_MOSES.get(base, base))
    steps = [(_needed(pattern), re.compile(pattern), new) for pattern, new in moses.substitutions]
    printing = _NonPrinting()

    def clean(line: str) -> str:
        if not line.isprintable():
            line = line.translate(printing)
        # `moses.normalize`, but for the patterns that cannot be in the line: ten times as fast.
        for needed, pattern, new in steps:
            if needed in line:
                line = pattern.sub(new, line)
        return line.strip()

    return clean


def _needed(pattern: str) -> str:
    """A string that every line has which a pattern of sacremoses changes; "" where none is known."""
    if pattern == " +":  # to one space
        return "  "
    literal = re.sub(r"\\[a-z]\*?|\[[^]]*\][+*]?|(?<!\\)[()+]", "\0", pattern)
    if re.search(r"(?<!\\)[]|?*{}^$.[]", literal):
        return ""
    return max(literal.replace("\\", "").split("\0"), key=len)
