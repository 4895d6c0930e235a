"""Documents as they come."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mexma_cli.text.repair import decode, repair, without_entities, without_tags


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
        "«MAÇÃ», “IRMÃ” e MANHÃ—disse: ROMÂ…",
        "1250 Å², EĞİTİMÎ”",
    ):
        assert repaired(text) == (text, {})
    assert repaired("cafÃ© e «MAÇÃ»") == ("café e «MAÇÃ»", {"mojibake": 1})


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


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("<p>Un <B CLASS=x>mot</B>.</p><p>Deux.</p>", "\nUn mot.\n\nDeux.\n"),
        ("un<br>deux<BR/>trois<br clear='all' />quatre", "un deux trois quatre"),
        ("un<br><br />\n<br>deux", "un\ndeux"),
        ("<ul><li>un<li>deux</ul>", "\n\nun\ndeux\n"),
        ("<tr><td nowrap>un</td><td>deux", "\n\nun\n\ndeux"),
        ("mot<b>gras</b>, mot<i class=x>penché", "motgras, motpenché"),
        ("Fin.<p>Début.</P>", "Fin.\nDébut.\n"),
        ("<a href=\"http://x/?a=b&c=d\"title='y'>lien</a> ici", "lien ici"),
        ('<img src="data:image/png;base64,AAAA==" alt="a < b > c">ici', "ici"),
        ("<!-- rien <b> -->un<!DOCTYPE html><?xml version='1.0'?><![CDATA[deux", "undeux"),
        ("un<script type='x'>if (a<b) document.write('<p>')</script>deux<style>p {}</style>", "un\ndeux\n"),
        ("le titre <time datetime='2020'>hier</time>", "le titre hier"),
        ("<title>Un</title><time>12 h</time>", "\nUn\n12 h"),
        ("un lien <a href='http://x/y", "un lien "),
        ("un<o:p></o:p> <font color=red>deux", "un deux"),
    ],
)
def test_known_tags_go(text: str, plain: str) -> None:
    assert without_tags(text) == plain


@pytest.mark.parametrize(
    "text",
    [
        "Si a < b et c > d, je t’aime <3",
        "a<b, 5<6>4, <-- ici -->, <>, < b >",
        "if (a<b && c>d) return x<a and y>z;",
        "#include <stdio.h> // vector<int> List<Object> Map<A> Set<String>",
        "cp <source> <dir>; git checkout <branch>; <file> <input>",
        "i<b>c",
        "<ref>Une note</ref> <text:p>un</text:p>",
        "écrire à <nom@example.org> ou <http://example.org/>",
    ],
)
def test_what_is_no_html_stays(text: str) -> None:
    assert without_tags(text) == text


@pytest.mark.parametrize(
    "piece", ['<a b="', "<!--", "<script>", "x<i>", "<dir>", "<br>", "<p a='", "</b ", "<td x=1 "]
)
def test_text_that_never_closes_takes_no_longer(piece: str) -> None:
    text = piece * (100_000 // len(piece))
    assert len(without_tags(text)) <= len(text)


def test_entities() -> None:
    assert (
        without_entities("d&eacute;j&#224; &#x3C;3&nbsp;&amp;c AT&T, a&b; &nbsp!")
        == "déjà <3\xa0&c AT&T, a&b;  !"
    )
