"""Numbers in digits, as they are compared between a sentence and its translation."""

from __future__ import annotations

import re
from collections import Counter

_SEPARATORS = ".,'’\u00a0\u202f\u066b\u066c"
_NUMBER = re.compile(rf"\d+(?:[{_SEPARATORS}]\d+| \d{{3}}(?!\d))*")


def numbers(sentence: str) -> Counter[str]:
    """How often each number is in a sentence, as its digits alone: ``1,000``, ``1.000``, ``1 000`` and the
    same in Arabic or Indic digits are equal, and so are ``3.5`` and ``3,5``."""
    return Counter(_digits(number) for number in _NUMBER.findall(sentence))


def shared_numbers(source: str, target: str) -> float:
    """The share of the numbers on both sides, of those on the side that has fewer; 1 where a side has none.

    A number may be a word on the other side ("five", "noon"), so the side with more says nothing.
    """
    first, second = numbers(source), numbers(target)
    fewer = min(first.total(), second.total())
    return (first & second).total() / fewer if fewer else 1.0


def _digits(number: str) -> str:
    digits = (character for character in number if character.isdecimal())
    return "".join(str(int(digit)) for digit in digits).lstrip("0")
