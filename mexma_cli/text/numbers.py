"""Numbers in digits, dates and times, as they are compared between a sentence and its translation."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import NamedTuple

_SPACE = " \u00a0\u2009\u202f"
_SEPARATORS = ".,'’\u066b\u066c"
_DECIMAL = re.compile(r"(\d+)[.,\u066b](\d+)")
_NUMBER = re.compile(
    r"(?<!\d)(?<!\d[./-])(?:(?P<ymd>\d{4}([./-])\d{1,2}\2\d{1,2})|"
    rf"(?P<dmy>\d{{1,2}}([./-])[{_SPACE}]?\d{{1,2}}\4[{_SPACE}]?(?:\d{{4}}|\d\d)))(?![./-]?\d)|"
    r"(?P<time>(?<!\d)\d{1,2}:\d\d(?::\d\d)?(?!\d))|"
    rf"(?<!\d)\d{{1,3}}(?:[{_SPACE}]\d{{3}}(?!\d))+(?:[.,\u066b]\d+)?|"
    rf"\d+(?:[{_SEPARATORS}]\d+)*[¼½¾]?"
)
_FRACTIONS = str.maketrans({"¼": ".25", "½": ".5", "¾": ".75"})
_SCALES = {
    10**5: "lakh लाख",
    10**6: (
        "million millón millon milió milion milioa milhão milhõ miljo millió milljó milijun milijon milyon "
        "mio mln juta triệu миллион мільйон милион милијун млн εκατομμ مليون ملايين मिलियन 百万 百萬 백만"
    ),
    10**7: "crore करोड़",
    10**9: (
        "billion milliard milliárd miljard miliard miliárd milijard milljarð millardo milyar miliar mil×mill "
        "mil×milh bilh миллиард мільярд милиард милијард млрд mrd mld tỷ tỉ δισεκατομμ مليار अरब"
    ),
    10**12: "billion billón billon bilion biljon биллион trillion trilh трлн",
    10**4: "万 萬 만",
    10**8: "亿 億 억",
}
"""The words for large numbers, by how they begin; × is a space. What a billion is depends on the language."""
_WORDS = sorted({word for words in _SCALES.values() for word in words.split()}, key=len, reverse=True)
_SCALE = re.compile(rf"[{_SPACE}-]?({'|'.join(_WORDS).replace('×', f'[{_SPACE}]')})", re.IGNORECASE)
_SCALED = re.compile(rf"\d{_SCALE.pattern}", re.IGNORECASE)
_RUN = re.compile(r"\d+")


class _Number(NamedTuple):
    """A number in a sentence.

    Attributes:
        keys: Its digits, in each way to read it.
        scaled: Those with the word behind it ("million"); none without one.
        parts: Of a date or a time, the numbers in it.
        is_date: Whether it is a date.
        span: Where it begins and ends in the sentence.
    """

    keys: frozenset[str]
    scaled: frozenset[str] = frozenset()
    parts: tuple[str, ...] = ()
    is_date: bool = False
    span: tuple[int, int] = (0, 0)

    def equals(self, other: _Number) -> bool:
        """Whether both can be read as the same number."""
        if self.scaled and other.scaled:
            return bool(self.scaled & other.scaled)
        return bool((self.keys | self.scaled) & (other.keys | other.scaled))


def numbers(sentence: str) -> Counter[str]:
    """How often each number is in a sentence: its digits, with the word for a large number behind it; dates
    and times are the numbers in them."""
    return _in_parts(list(_numbers(sentence)), 0)


def shared_numbers(source: str, target: str) -> float:
    """The share of the numbers on both sides, of those on the side that has fewer; 1 where a side has none.

    A number may be a word on the other side ("five", "noon"), so the side with more says nothing. Equal are

    - ``1,000``, ``1.000``, ``1 000`` and the same in Arabic or Indic digits; ``3.5``, ``3,5`` and ``3½``;
    - dates in digits, whichever of day and month is first: ``12/08/2016``, ``8.12.16``, ``2016-08-12``. A
      date is also what its three numbers are;
    - ``9:15``, ``9.15`` and the two numbers;
    - ``1.5 million``, ``1,5 Mio.``, ``150万`` and ``1 500 000`` (`_SCALES`).
    """
    runs = _RUN.findall(source), _RUN.findall(target)
    if not all(runs) or (runs[0] == runs[1] and not _SCALED.search(source)):
        return 1.0
    first, second = list(_numbers(source)), list(_numbers(target))
    left, right = _without_equal(first, second)
    shared = len(first) - len(left)
    different = min(sum(number.is_date for number in side) for side in (left, right))
    ones, others = (_in_parts(side, different) for side in (left, right))
    fewer = shared + different + min(ones.total(), others.total())
    return (shared + (ones & others).total()) / fewer if fewer else 1.0


def differing_numbers(source: str, target: str) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Where the numbers of both sentences begin and end that have no equal (see `shared_numbers`) in the
    other sentence, in characters."""
    first, second = _without_equal(list(_numbers(source)), list(_numbers(target)))
    common = _in_parts(first, 0) & _in_parts(second, 0)
    return _unmet(first, Counter(common)), _unmet(second, Counter(common))


def _unmet(numbers: Sequence[_Number], common: Counter[str]) -> list[tuple[int, int]]:
    """The spans of numbers of which not all parts are in `common`, where each is met once."""
    spans = []
    for number in numbers:
        parts = _in_parts([number], 0)
        if parts <= common:
            common -= parts
        else:
            spans.append(number.span)
    return list(dict.fromkeys(spans))


def _without_equal(first: list[_Number], second: list[_Number]) -> tuple[list[_Number], list[_Number]]:
    """The numbers of both sides that are left when each has met an equal one of the other side, if it can."""
    places: dict[str, list[int]] = {}
    for place in range(len(second) - 1, -1, -1):
        for key in second[place].keys | second[place].scaled:
            places.setdefault(key, []).append(place)
    left, met = [], set()
    for number in first:
        for key in sorted(number.scaled) + sorted(number.keys):
            found = places.get(key, [])
            while found and found[-1] in met:
                found.pop()
            if found and number.equals(second[found[-1]]):
                met.add(found.pop())
                break
        else:
            left.append(number)
    return left, [number for place, number in enumerate(second) if place not in met]


def _in_parts(numbers: Sequence[_Number], dates: int) -> Counter[str]:
    """Numbers, dates and times by their parts, without the first few dates."""
    found: Counter[str] = Counter()
    for number in numbers:
        if number.is_date and dates:
            dates -= 1
        else:
            found.update(number.parts or [min(number.scaled or number.keys)])
    return found


def _numbers(sentence: str) -> Iterator[_Number]:
    place = 0
    while digit := _RUN.search(sentence, place):  # `finditer` would try every character
        found = _NUMBER.match(sentence, digit.start())
        assert found is not None
        place = found.end()
        text = found[0].translate(_FRACTIONS)
        parts = tuple(map(_digits, _RUN.findall(text)))
        if found["ymd"] or found["dmy"]:
            if dates := _dates(text, bool(found["ymd"])):
                yield _Number(dates | {_digits(text)}, parts=parts, is_date=True, span=found.span())
                continue
            if not text.replace(".", "").isdecimal():
                yield from (_Number(frozenset([part]), span=found.span()) for part in parts)
                continue
        scale = _SCALE.match(sentence, found.end())
        scaled = _scaled(text, scale[1].lower()) if scale else frozenset()
        end = scale.end() if scale else found.end()
        parts = parts if found["time"] else ()
        yield _Number(frozenset([_digits(text)]), scaled, parts, span=(found.start(), end))


def _dates(text: str, year_first: bool) -> frozenset[str]:
    """The dates that three numbers can be; the smaller one of day and month is always first."""
    numbers = [int(part) for part in _RUN.findall(text)]
    year = numbers.pop(0 if year_first else 2)
    low, high = sorted(numbers)
    if not (1 <= low <= 12 and high <= 31):
        return frozenset()
    years = [year] if year > 99 else [1900 + year, 2000 + year]
    return frozenset(f"{year}-{low}-{high}" for year in years)


def _scaled(text: str, word: str) -> frozenset[str]:
    """The digits of a number with the word behind it."""
    values = [Decimal(_digits(text) or 0)]
    if decimal := _DECIMAL.fullmatch(text):
        value = Decimal(f"{int(decimal[1])}.{''.join(str(int(digit)) for digit in decimal[2])}")
        values = [value, *values] if len(decimal[2]) == 3 else [value]
    word = re.sub(r"\s", "×", word)
    scales = [scale for scale, words in _SCALES.items() if word in words.split()]
    return frozenset(_digits(f"{(value * scale).normalize():f}") for value in values for scale in scales)


def _digits(number: str) -> str:
    digits = "".join(filter(str.isdecimal, number))
    if not digits.isascii():
        digits = "".join(str(int(digit)) for digit in digits)
    return digits.lstrip("0")
