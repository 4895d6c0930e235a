"""Documents as they come."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from mexma_cli.text.repair import decode, repair


def repaired(text: str) -> tuple[str, dict[str, int]]:
    counts: Counter[str] = Counter()
    return repair(["other", text, ""], counts)[1], dict(counts)


def test_mojibake_of_several_encodings_is_repaired() -> None:
    for encoding, sentence in (
        ("latin-1", "L'été déjà passé, où ça ?"),
        ("windows-1252", "L'été à Noël – « déjà »"),
        ("windows-1251", "Привет, как дела?"),
        ("macroman", "L'été à Noël, où ça ?"),
        ("cp437", "L'été à Noël, où ça ?"),
    ):
        broken = sentence.encode().decode(encoding)
        assert repaired(broken) == (sentence, {"mojibake": 1}), encoding


def test_cyrillic_mojibake_beside_good_cyrillic_is_repaired() -> None:
    for good in ("Привіт усім", "Это новости дня, Москва — центр", "Сия Россия", "Ѓорѓи Њујорк"):
        broken = " ".join(
            word.encode().decode("sloppy-windows-1251") if place % 2 == 0 else word
            for place, word in enumerate(good.split(" "))
        )
        assert repaired(broken) == (good, {"mojibake": 1}), broken


def test_good_text_comes_back_as_it_is() -> None:
    for text in (
        "L'été déjà passé, « où » ça ?",
        "Він їхав. Її",
        "СІРІ КОЛЬОРИ, РІСІРІ, СЄРЄЖА",
        "Россия, Сёмга, Рё",
        "Ёлка и ёж",
        "Ça créée",
        "αὐτός",
        "中文。",
        "İıŞş",
    ):
        assert repaired(text) == (text, {})


def test_entities_controls_and_accents() -> None:
    assert repaired("Tom &amp; Jerry &eacute;") == ("Tom & Jerry é", {"entities": 1})
    assert repaired("\u200ea\u2067\u05d0\u2069\u200f\u200c\u200d") == ("a\u05d0\u200c\u200d", {"control": 1})
    assert repaired("a\0b\u200bc\xadd\x0ce\u2028f\tg") == ("abcd\ne\nf\tg", {"control": 1})
    assert repaired("e\u0301") == ("é", {"composed": 1})


def test_html_is_taken_out() -> None:
    assert repaired("<b>Tom</b> &amp; Jerry") == ("Tom & Jerry", {"tags": 1, "entities": 1})
    assert repaired("L&amp;eacute;t&amp;#233;&nbsp!") == ("Lété !", {"entities": 1})
    assert repaired("&lt;p&gt;un&lt;/p&gt;") == ("\nun\n", {"tags": 1, "entities": 1})
    assert repaired("&amp;lt;p&amp;gt;l&amp;amp;#39;un&amp;lt;/p&amp;gt;")[0] == "\nl'un\n", (
        "escaped twice more"
    )
    assert repaired("<p>Mit &lt;b&gt; fett.</p>")[0] == "\nMit <b> fett.\n", "text about HTML"
    assert repair(["<b>a &amp; b</b>"], Counter(), keep_html=True) == ["<b>a &amp; b</b>"]


def test_line_ends_and_what_is_no_utf8() -> None:
    assert decode(b"a\r\nb\rc\n") == "a\nb\nc\n"
    assert decode("é".encode("latin-1")) is None


@given(st.text())
def test_no_control_characters_are_left(text: str) -> None:
    once = repair([text], Counter())[0]
    assert not any(code in once for code in map(chr, (0, 1, 0x200B, 0xAD)))
