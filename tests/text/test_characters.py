"""Characters: signs of scripts without spaces, and variants of Chinese characters."""

from __future__ import annotations

import re

import pytest

from mexma_cli.text.characters import KATAKANA, SIGN, is_unspaced, is_vietnamese, share_in_script, simplified


@pytest.mark.parametrize(
    ("text", "signs"),
    [
        ("中國人", "中 國 人"),
        ("アメリカの大統領", "アメリカ の 大 統 領"),
        ("နှင့်ကောင်းကင်", "နှင့် ကောင်း ကင်"),
        ("ที่ดี", "ที่ ดี"),
        ("ខ្មែរ", "ខ្មែ រ"),
        ("한국어", ""),
        ("abc.", ""),
    ],
)
def test_signs(text: str, signs: str) -> None:
    """A letter of Burmese has its marks, and the consonant that ends its syllable; Katakana stay together."""
    found = [match.group() for match in re.finditer(f"{SIGN}|{KATAKANA}", text)]
    assert found == signs.split()
    assert all(is_unspaced(sign) for sign in found if not re.match(KATAKANA, sign))


def test_what_is_of_vietnamese_alone() -> None:
    assert [is_vietnamese(word) for word in ("học", "sinh", "élève", "ação", "Việt")] == [
        True,
        False,
        False,
        False,
        True,
    ]


def test_simplified_characters_stay() -> None:
    table = simplified()
    assert "漢語 汉语 円 圓 圆".translate(table) == "汉语 汉语 圆 圆 圆"
    assert not {ord(plain) for plain in table.values()} & table.keys()


@pytest.mark.parametrize(
    ("text", "script", "share"),
    [
        ("Привет, мир 1!", "Cyrl", 1.0),
        ("Привет abc", "Cyrl", 6 / 9),
        ("カタカナとテキスト", "Jpan", 1.0),
        ("漢字", "Hang", 1.0),
        ("شكرا", "Aran", 1.0),
        ("नमस्ते", "Latn", 0.0),
        ("12 ...", "Latn", None),
        ("abc", "Qaaa", None),
    ],
)
def test_the_share_of_letters_of_a_script(text: str, script: str, share: float | None) -> None:
    assert share_in_script(text, script) == share
