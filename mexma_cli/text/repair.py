"""Documents in a form that can be split: UTF-8, mojibake repaired, NFC, no control characters."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from mexma_cli.text.characters import Characters
from mexma_cli.text.markup import without_entities, without_tags
from mexma_cli.text.normalise import normal_form
from mexma_cli.text.pages import decode_page

_BREAKS = "\v\f\x1c\x1d\x1e\x85\u2028\u2029"
_CONTROLS = "".join(
    chr(code) for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\t\n" + _BREAKS
)
_DIRECTIONS = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
_INVISIBLE = "\xad\u200b\u2060\ufeff" + _DIRECTIONS
_MAP = dict.fromkeys(map(ord, _BREAKS), "\n") | dict.fromkeys(map(ord, _CONTROLS + _INVISIBLE))
_TIMES_ESCAPED = 4
_SECOND = re.escape(bytes({*range(0x80, 0xC0)} - {0x98}).decode("cp1251") + "\x98")
_CYRILLIC = re.compile(
    rf"(?=(?:[РС][{_SECOND}])*[РС](?![ЁЄІЇҐЎЈЅ])[{_SECOND}])"
    rf"(?:[РС][{_SECOND}](?:В[{_SECOND}]|в[{_SECOND}]{{2}})*){{2,}}"
)
"""Runs of Cyrillic in UTF-8 that was read as Windows-1251; ftfy repairs lines that are such as a whole."""
_CONTROL = 1 << 15
"""The bit of characters in `_MAP`."""


def decode(document: bytes, charset: str | None = None) -> str | None:
    """A document as text, its line ends ``\\n``; None if it is in no known encoding."""
    try:
        text = decode_page(document, charset, html=False) if charset else document.decode("utf-8")
    except UnicodeDecodeError:
        text = None
    if text is None:
        return None
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def repair(texts: Sequence[str], repaired: Counter[str], keep_html: bool = False) -> list[str]:
    """Texts as people meant them, in NFC.

    Tags and entities of HTML are taken out, also those that are escaped once more. Mojibake (UTF-8 that was
    read as another encoding) is repaired by ftfy (Speer, 2019). Control characters, soft hyphens, marks of
    direction and invisible spaces are removed; the control characters that end lines or pages become line
    ends. Nothing else changes: text that needs no repair comes back as it is.

    Args:
        repaired: Counts the texts that were repaired: `tags`, `entities`, `mojibake`, `control`, `composed`.
        keep_html: Leave tags and entities.
    """
    found = list(texts)

    def change(name: str, place: int, text: str) -> None:
        if text != found[place]:
            found[place] = text
            repaired[name] += 1

    for place, text in enumerate(found):
        if ("&" in text or "<" in text) and not keep_html:
            found[place] = _without_html(text, repaired)
    characters, before = Characters(found), repaired["mojibake"]
    for place in np.flatnonzero(may_be_mojibake(characters)).tolist():
        change("mojibake", place, _without_mojibake(found[place]))
    if repaired["mojibake"] > before:
        characters = Characters(found)
    for place in np.flatnonzero(_has_control(characters)).tolist():
        change("control", place, found[place].translate(_MAP))
    for place, text in enumerate(found):
        if not unicodedata.is_normalized("NFC", text):
            change("composed", place, normal_form("NFC", text))
    return found


def _without_html(text: str, repaired: Counter[str]) -> str:
    found: set[str] = set()
    for _ in range(_TIMES_ESCAPED):
        # Where all tags are escaped, they are markup that was escaped as a whole, and not text about HTML.
        tagless = text if "tags" in found else without_tags(text)
        plain = without_entities(tagless)
        found |= {"tags"} if tagless != text else set()
        found |= {"entities"} if plain != tagless else set()
        if plain == text:
            break
        text = plain
    repaired.update(found)
    return text


def _without_mojibake(text: str) -> str:
    from ftfy import TextFixerConfig, fix_encoding

    config = TextFixerConfig(unescape_html=False, normalization=None, explain=False)
    lines = text.split("\n")
    for place in np.flatnonzero(may_be_mojibake(Characters(lines))).tolist():
        lines[place] = _CYRILLIC.sub(_cyrillic, fix_encoding(lines[place], config))
    return "\n".join(lines)


def _cyrillic(found: re.Match[str]) -> str:
    try:
        return found[0].encode("sloppy-windows-1251").decode("utf-8")
    except UnicodeError:
        return found[0]


def is_mojibake(text: str) -> bool:
    """Whether there is mojibake in a text, such as one that cannot be repaired because half of it was."""
    from ftfy.badness import BADNESS_RE

    # Mojibake begins with a letter; what begins with a quotation mark is found in good text, too.
    return any(found[0].isalpha() for found in BADNESS_RE.findall(text))


def may_be_mojibake(texts: Characters) -> np.ndarray:
    """Which texts may have mojibake, bool [N].

    All mojibake has a first byte of UTF-8 and then a second one, both read in one of the encodings that ftfy
    knows, or a control character. That is much faster to look for than what ftfy looks for, and is in little
    else.
    """
    first, second = _bits()
    places = texts.unusual
    marks = first[texts.points[places]]
    begins = (marks & second[texts.points[np.minimum(places + 1, len(texts.points) - 1)]]) > 0
    return texts.having(places[begins | ((marks & np.uint16(_CONTROL)) > 0)])


def _has_control(texts: Characters) -> np.ndarray:
    """Which texts have characters of `_MAP`, bool [N]."""
    places = texts.unusual
    return texts.having(places[(_bits()[0][texts.points[places]] & np.uint16(_CONTROL)) > 0])


@lru_cache(maxsize=1)
def _bits() -> tuple[np.ndarray, np.ndarray]:
    """A bit for each encoding, where a character is a first byte of UTF-8 read in it, or a second one.

    Returns:
        Two uint16 [0x110000]; the first also has the bit `_CONTROL`.
    """
    from ftfy.chardata import CHARMAP_ENCODINGS

    first, second = (np.zeros(0x110000, dtype=np.uint16) for _ in range(2))
    for number, encoding in enumerate(CHARMAP_ENCODINGS):
        for table, codes in ((first, range(0xC2, 0xF5)), (second, range(0x80, 0xC0))):
            characters = bytes(codes).decode(encoding, "ignore")
            table[list(map(ord, characters))] |= np.uint16(1 << number)
    first[list(_MAP)] |= np.uint16(_CONTROL)
    return first, second
