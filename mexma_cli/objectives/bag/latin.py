"""Plain Latin letters for Cyrillic ones and for accented ones, so that equal sounds look alike."""

from __future__ import annotations

_CYRILLIC = {
    **dict(zip("абвгдезиклмнопрстуфхцчшыэіґј", "abvgdeziklmnoprstufhccsyeigj", strict=True)),
    **{"ж": "z", "щ": "sc", "ъ": "a", "ь": "", "ю": "ju", "я": "ja", "є": "je"},
    **{"ђ": "d", "ћ": "c", "љ": "lj", "њ": "nj", "џ": "dz", "ѕ": "dz"},
}
_LATIN = {"ł": "l", "đ": "d", "ø": "o", "ð": "d", "þ": "th", "æ": "ae", "œ": "oe", "ß": "ss", "ı": "i"}

LATIN = _CYRILLIC | _LATIN
LATIN |= {
    upper: plain.capitalize()
    for lower, plain in LATIN.items()
    if len(upper := lower.upper()) == 1 and not upper.isascii()
}
"""One letter without accents to plain Latin ones: Cyrillic as Serbian and Croatian match it (ж and ž are z, ц
and ч are c), so that Belgrade is `Beograd` in both scripts."""

_MARKS = "[\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0640\u064b-\u065f\u0670]"
_VIETNAMESE = "(?:[\u0309\u0323\u031b]|[aeo][\u0302\u0306][\u0300\u0301\u0303])"
ACCENTS = f"{_MARKS}(?!.*{_VIETNAMESE})"
"""Marks that a reader does without, of decomposed text: accents, Hebrew points, Arabic vowel signs, hamzas on
other letters, and the stroke that lengthens Arabic words. In Vietnamese they tell most words apart: all marks
stay that a mark of Vietnamese alone follows in the same line."""
