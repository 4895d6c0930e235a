"""Numbers, dates and times of a sentence and its translation."""

from __future__ import annotations

import pytest

from mexma_cli.text.numbers import shared_numbers

EQUAL = [
    ("12/08/2016", "12.08.2016"),
    ("12/08/2016", "2016-08-12"),
    ("8/12/2016", "12.08.2016"),
    ("12. 8. 2016", "12-08-16"),
    ("On 12/08/2016.", "Am 12. August 2016."),
    ("2016年8月12日", "12/08/2016"),
    ("at 9:15", "um 9.15 Uhr"),
    ("09:15", "à 9 h 15"),
    ("٩:١٥", "9.15"),
    ("12:00", "12"),
    ("1.5 million", "1 500 000"),
    ("1.5 million", "1\u00a0500\u202f000"),
    ("1,500,000", "1.500.000"),
    ("1.5 million", "150万"),
    ("2.3 billion", "2,3 Milliarden"),
    ("2.300 millones", "2.3 billion"),
    ("2 mil millones", "2 Mrd."),
    ("2 billones", "2 trillion"),
    ("1.5 crore", "15 million"),
    ("1.5 gazillion", "1,5 Fantastilliarden"),
    ("in 2016 500 people", "500 personnes en 2016"),
    ("3.5", "3,5"),
    ("3½ hours", "3,5 Stunden"),
    ("2½ million", "2 500 000"),
    ("five", "5"),
]
DIFFERENT = [
    ("4,100", "4000"),
    ("12.08.2016", "13.08.2016"),
    ("12/08/2016", "12/08/2017"),
    ("2016-08-12", "12.09.2016"),
    ("9:15", "10:30"),
    ("1.5 million", "2.5 million"),
    ("1.5 million", "1.5 billion"),
    ("1.5 million", "1 600 000"),
    ("3.5", "5.3"),
]
MILLIONS = """
million millón millones milhão milhões milione milioni milioane Millionen Mio. miljoen millioner
miljoner milljónir miljoonaa miljonit miljoni milijono miliona mln milionu milióna milijona milijuna
милиона миллиона мільйона εκατομμύρια millió milyon juta triệu مليون मिलियन 百万 백만
"""


@pytest.mark.parametrize(("one", "other"), EQUAL)
def test_the_same_number_is_shared_however_it_is_written(one: str, other: str) -> None:
    assert shared_numbers(one, other) == shared_numbers(other, one) == 1


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_other_numbers_are_not(one: str, other: str) -> None:
    assert shared_numbers(one, other) == shared_numbers(other, one) == 0


@pytest.mark.parametrize("word", MILLIONS.split())
def test_a_million_in_the_languages_of_the_docs(word: str) -> None:
    assert shared_numbers(f"1,5 {word}", "1 500 000") == 1 and shared_numbers(f"1,5 {word}", "1,600,000") == 0


def test_the_share_is_that_of_the_side_with_fewer() -> None:
    assert shared_numbers("12/08/2016 and 7 of 9", "12.08.2016: 7, 8") == pytest.approx(2 / 3)
    assert shared_numbers("13/08/2016 and 7 of 9", "12.08.2016: 7, 8") == pytest.approx(1 / 3)
    assert shared_numbers("1 1 1 2", "1 1 3") == pytest.approx(2 / 3)
