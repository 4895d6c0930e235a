"""Documents in a form that can be split: UTF-8, mojibake repaired, NFC, no control characters."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from functools import lru_cache

_BREAKS = "\v\f\x1c\x1d\x1e\x85\u2028\u2029"
_CONTROLS = "".join(
    chr(code) for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\t\n" + _BREAKS
)
_INVISIBLE = "\xad\u200b\u2060\ufeff"
_MAP = dict.fromkeys(map(ord, _BREAKS), "\n") | dict.fromkeys(map(ord, _CONTROLS + _INVISIBLE))
_MAPPED = re.compile(f"[{re.escape(_BREAKS + _CONTROLS + _INVISIBLE)}]")


def decode(document: bytes) -> str | None:
    """A document in UTF-8 as text, its line ends ``\\n``; None if it is not UTF-8."""
    try:
        text = document.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def repair(text: str, repaired: Counter[str]) -> str:
    """Text as people meant it, in NFC.

    Mojibake (UTF-8 that was read as another encoding) and entities of HTML are repaired by ftfy (Speer,
    2019). Control characters, soft hyphens and invisible spaces are removed; the control characters that
    end lines or pages become line ends. Nothing else changes: text that needs no repair comes back as it is.

    Args:
        repaired: Counts the texts that were repaired: `entities`, `mojibake`, `control`, `composed`.
    """
    for name, step in _STEPS.items():
        changed = step(text)
        if changed is not text and changed != text:
            repaired[name] += 1
            text = changed
    return text


def _without_entities(text: str) -> str:
    if "&" not in text:
        return text
    from ftfy.fixes import unescape_html

    return str(unescape_html(text))


def _without_mojibake(text: str) -> str:
    if text.isascii() or not _suspicious().search(text):
        return text
    from ftfy import TextFixerConfig, fix_encoding

    config = TextFixerConfig(unescape_html=False, normalization=None, explain=False)
    return "\n".join(
        fix_encoding(line, config) if _suspicious().search(line) else line for line in text.split("\n")
    )


def _without_controls(text: str) -> str:
    return text.translate(_MAP) if _MAPPED.search(text) else text


def _composed(text: str) -> str:
    return text if unicodedata.is_normalized("NFC", text) else unicodedata.normalize("NFC", text)


_STEPS = {
    "entities": _without_entities,
    "mojibake": _without_mojibake,
    "control": _without_controls,
    "composed": _composed,
}


@lru_cache(maxsize=1)
def _suspicious() -> re.Pattern[str]:
    """What all mojibake has: a first byte of UTF-8 and a second one, both read in one of ftfy's encodings.

    It is much faster to look for than what ftfy looks for, and is in little else.
    """
    from ftfy.chardata import CHARMAP_ENCODINGS

    pairs = []
    for encoding in CHARMAP_ENCODINGS:
        first, second = (
            bytes(codes).decode(encoding, "ignore") for codes in (range(0xC2, 0xF5), range(0x80, 0xC0))
        )
        pairs.append(f"[{re.escape(first)}][{re.escape(second)}]")
    return re.compile("|".join([*dict.fromkeys(pairs), "[\x80-\x9f]"]))
