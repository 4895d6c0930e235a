"""Pairs that are copies, not translations: both sides are in one language and differ in details only."""

from __future__ import annotations

import re
from collections import Counter
from typing import Literal

from mexma_cli.text.normalise import normal_form

Reason = Literal["identical", "near-identical"]

COPY_OVERLAP = 0.9
"""Share of letter trigrams in common from which two sentences are near-copies."""

_NO_LETTERS = re.compile(r"[\W\d_]+")


def copy_reason(source: str, target: str) -> Reason | None:
    """Why a pair is a copy and no translation; None if it does not look like a copy.

    identical: equal except for white space at the ends. near-identical: equal letters after case folding
    (numbers and punctuation may differ), or `COPY_OVERLAP` of all letter trigrams in common (Dice's
    coefficient of both multisets). Two sides without any letter are copies, too.
    """
    if source.strip() == target.strip():
        return "identical"
    first, second = _letters(source), _letters(target)
    if first == second:
        return "near-identical"
    shorter, longer = sorted((max(0, len(first) - 2), max(0, len(second) - 2)))
    if 2 * shorter < COPY_OVERLAP * (shorter + longer):
        return None  # too few trigrams on one side, whatever they are
    enough = COPY_OVERLAP * (shorter + longer) / 2
    # A trigram in common is a first letter in common, and letters are counted ten times as fast.
    one, other = first[:-2], second[:-2]
    if sum(min(one.count(letter), other.count(letter)) for letter in set(one)) < max(enough, 1):
        return None
    return "near-identical" if (_trigrams(first) & _trigrams(second)).total() >= max(enough, 1) else None


def _letters(sentence: str) -> str:
    return _NO_LETTERS.sub("", normal_form("NFKC", sentence).casefold())


def _trigrams(letters: str) -> Counter[str]:
    return Counter(letters[i : i + 3] for i in range(len(letters) - 2))
