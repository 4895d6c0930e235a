"""Letters, scripts, digits and symbols of many sentences, counted at once; scripts that put no space between
words, and Chinese characters that are variants of one another."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache, cached_property, lru_cache
from pathlib import Path

import numpy as np

OTHER, SPACE, DIGIT, SYMBOL, BROKEN, COMMON, OWN, FOREIGN, OWN_UNSPACED, FOREIGN_UNSPACED = range(10)
"""Kinds of characters. OTHER: punctuation and invisible ones. BROKEN: control characters, the replacement
character and others that no text has. COMMON: letters and marks of no script. OWN, FOREIGN: letters and marks
of the scripts that are asked for, and of others; UNSPACED: those of scripts without spaces between words."""
KINDS = 10

_UNSPACED = ("Hani", "Hira", "Kana", "Bopo", "Thai", "Laoo", "Khmr", "Mymr", "Tibt")
_WRITTEN_IN = {
    "Hans": ("Hani", "Bopo"),
    "Hant": ("Hani", "Bopo"),
    "Jpan": ("Hani", "Hira", "Kana"),
    "Kore": ("Hang", "Hani"),
    "Hang": ("Hang", "Hani"),
    "Hrkt": ("Hira", "Kana"),
    "Aran": ("Arab",),
    "Cyrs": ("Cyrl",),
    "Geok": ("Geor",),
    **dict.fromkeys(("Latf", "Latg"), ("Latn",)),
    **dict.fromkeys(("Syre", "Syrj", "Syrn"), ("Syrc",)),
}
"""ISO 15924 codes that stand for several scripts of Unicode's, with characters of another one, or for a style
of one."""


INVISIBLE = (
    r"\s\x00-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    r"\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3"
    r"\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""Characters that nobody sees, for a class of a regular expression: white space, control characters, those of
Unicode's property Default_Ignorable_Code_Point, marks of annotations, and the blank pattern of Braille."""
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
_KATAKANA = r"\u30a1-\u30fa\u30fc-\u30ff"
KATAKANA = f"[{_KATAKANA}]+"
"""A regular expression for a word in them."""
SPACED = rf"\W_{_CHARACTERS}{_SYLLABLES}"
"""For a class of a regular expression that begins with ^: what is in no word between spaces."""
SPACED_ALPHABET = rf"{SPACED}\d{_KATAKANA}"
"""`SPACED` with digits and Katakana."""
_WRITTEN = rf"[{_CHARACTERS}{_SYLLABLES}\u3001-\u301b\u30a0-\u30ff\uff01-\uff60]"
_WRAPPED = rf"(?<={_WRITTEN})[^\S\n]*\n\s*(?={_WRITTEN})"  # slow to compile
_FIRST = re.compile(rf"[{_CHARACTERS}{_SYLLABLES}]")
_VIETNAMESE = re.compile(r"[\u01a1\u01b0\u1ea0-\u1ef9]", re.IGNORECASE)


class Characters:
    """The characters of N sentences, one behind the other, each sentence with a line end behind it. OWN
    letters are those of a script (ISO 15924, ``Cyrl``); without one all letters are FOREIGN.

    What is not asked for is not computed; all of it takes a second for about 100 MB of text.
    """

    def __init__(self, sentences: Sequence[str], script: str | None = None) -> None:
        self._sentences, self._script = sentences, script
        self.lengths = np.fromiter(map(len, sentences), dtype=np.int64, count=len(sentences))
        """int64 [N]."""

    @cached_property
    def text(self) -> str:
        """All sentences, with the line ends."""
        return "\n".join(self._sentences) + "\n"

    @cached_property
    def points(self) -> np.ndarray:
        """Code points, uint32 [characters and line ends]."""
        return np.frombuffer(self.text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)

    @cached_property
    def unusual(self) -> np.ndarray:
        """The places of all characters but the visible ones of ASCII and spaces, int64."""
        return np.flatnonzero((self.points < ord(" ")) | (self.points > ord("~")))

    @cached_property
    def kinds(self) -> np.ndarray:
        """The kind of every character, uint8."""
        return _kinds(self._script)[self.points]

    @cached_property
    def counts(self) -> np.ndarray:
        """int64 [N, KINDS], without the line ends."""
        size = KINDS * len(self._sentences)
        keys = np.repeat(np.arange(0, size, KINDS), self.lengths + 1) + self.kinds
        counts = np.bincount(keys, minlength=size).reshape(-1, KINDS)
        counts[:, SPACE] -= 1
        return counts

    def containing(self, *strings: str) -> list[int]:
        """The sentences that have one of some short strings in them, in order."""
        found: set[int] = set()
        ends = np.cumsum(self.lengths + 1)
        for string in strings:
            place = self.text.find(string)
            while place >= 0:
                row = int(np.searchsorted(ends, place, side="right"))
                found.add(row)
                place = self.text.find(string, int(ends[row]))
        return sorted(found)

    def having(self, places: np.ndarray) -> np.ndarray:
        """Whether each sentence has one of some characters, named by their places, bool [N]."""
        found = np.zeros(len(self.lengths), dtype=bool)
        found[self.rows(places)] = True
        return found

    def rows(self, places: np.ndarray) -> np.ndarray:
        """The sentences that characters are in, by their places."""
        return np.searchsorted(np.cumsum(self.lengths + 1) - 1, places)


def every_character() -> str:
    """All code points in order, also those of half a character."""
    return np.arange(0x110000, dtype=np.uint32).tobytes().decode("utf-32-le", "surrogatepass")


@lru_cache(maxsize=16)
def _kinds(script: str | None) -> np.ndarray:
    """The kind of every code point, uint8 [0x110000]."""
    import regex  # knows the scripts of Unicode

    every = every_character()
    own = of_script(script) if script else ""
    unspaced = _scripts(_UNSPACED)
    letters = r"[\p{L}\p{M}]"
    kinds = np.full(len(every), OTHER, dtype=np.uint8)
    for kind, pattern in (
        (BROKEN, r"[\p{Cc}\p{Co}\p{Cn}\p{Cs}\ufffd]"),
        (SPACE, r"\s"),
        (DIGIT, r"\p{N}"),
        (SYMBOL, r"\p{S}"),
        (FOREIGN, letters),
        (FOREIGN_UNSPACED, rf"[{letters}&&{unspaced}]"),
        (COMMON, rf"[{letters}&&{_scripts(('Zyyy', 'Zinh'))}]"),
        *([(OWN, rf"[{letters}&&{own}]"), (OWN_UNSPACED, rf"[{letters}&&{own}&&{unspaced}]")] * bool(own)),
    ):
        for found in regex.finditer(f"(?V1){pattern}+", every):
            kinds[found.start() : found.end()] = kind
    kinds[0xFFFD] = BROKEN  # a symbol by its category
    return kinds


@cache
def of_script(script: str) -> str:
    """A class of a regular expression for the characters of a script (ISO 15924); empty if Unicode does not
    know it."""
    import regex

    found = _scripts(_WRITTEN_IN.get(script, (script,)))
    try:
        regex.compile(found)
    except regex.error:
        return ""
    return found


def share_in_script(text: str, script: str) -> float | None:
    """The share of a text's letters that are of a script (ISO 15924), not counting those of no script; None
    if there are no others, or if Unicode does not know the script."""
    import regex

    own, letters = of_script(script), rf"\p{{L}}--{_scripts(('Zyyy', 'Zinh'))}"
    count = len(regex.findall(f"(?V1)[{letters}]", text)) if own else 0
    return len(regex.findall(f"(?V1)[{letters}&&{own}]", text)) / count if count else None


def _scripts(names: Sequence[str]) -> str:
    return "[" + "".join(rf"\p{{Script={name}}}" for name in names) + "]"


def is_unspaced(text: str) -> bool:
    """Whether a text begins in such a script."""
    return _FIRST.match(text) is not None


def unwrapped(text: str) -> str:
    """A text without the line ends between characters of such scripts, and the white space around them: they
    are no spaces, as other line ends are in a text that is wrapped over lines."""
    return re.sub(_WRAPPED, "", text) if "\n" in text else text


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
