"""Scripts that put no space between words, and Chinese characters that are variants of one another."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

_CHARACTERS = r"\u3005\u3007\u3041-\u309f\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_SYLLABLES = r"\u0e00-\u0eff\u1000-\u1049\u104c-\u109f\u1780-\u17ff"
_MARKS = (
    r"\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\u0eb1\u0eb4-\u0ebc\u0ec8-\u0ecd\u102b-\u103e\u1056-\u1059\u17b4-\u17d3"
)
SIGN = (
    rf"[{_CHARACTERS}]"
    rf"|[{_SYLLABLES}](?:[{_MARKS}]|(?<=[\u1039\u17d2])[{_SYLLABLES}]|[\u1000-\u1021](?=\u1037?\u103a))*"
)
"""A regular expression for one sign of these scripts: a Chinese character, a letter of Hiragana, or a letter
of Thai, Lao, Burmese or Khmer with its marks (in Burmese with the consonant that ends the syllable). Katakana
are left out: a word in them is most often a name or a loan, which its Latin letters help to recognise."""
KATAKANA = r"[\u30a1-\u30fa\u30fc-\u30ff]+"
"""A regular expression for a word in them."""
_WRITTEN = rf"[{_CHARACTERS}{_SYLLABLES}\u3001-\u301b\u30a0-\u30ff\uff01-\uff60]"
_WRAPPED = re.compile(rf"(?<={_WRITTEN})[^\S\n]*\n\s*(?={_WRITTEN})")
_FIRST = re.compile(rf"[{_CHARACTERS}{_SYLLABLES}]")
_VIETNAMESE = re.compile(r"[\u01a1\u01b0\u1ea0-\u1ef9]", re.IGNORECASE)


def is_unspaced(text: str) -> bool:
    """Whether a text begins in such a script."""
    return _FIRST.match(text) is not None


def unwrapped(text: str) -> str:
    """A text without the line ends between characters of such scripts, and the white space around them: they
    are no spaces, as other line ends are in a text that is wrapped over lines."""
    return _WRAPPED.sub("", text) if "\n" in text else text


def is_vietnamese(text: str) -> bool:
    """Whether a text has a letter of Vietnamese alone, which puts a space between the syllables of a word."""
    return _VIETNAMESE.search(text) is not None


@cache
def simplified() -> dict[int, str]:
    """For `str.translate`: traditional Chinese and Japanese characters to simplified Chinese ones.

    From OpenCC's tables (https://github.com/BYVoid/OpenCC, Apache License 2.0), the first choice of each.
    """
    rows = Path(__file__).with_name("han.txt").read_text(encoding="utf-8").split()
    return {ord(row[0]): row[1] for row in rows}
