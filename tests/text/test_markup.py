"""HTML that is left in text, and what only looks like it."""

from __future__ import annotations

import pytest

from mexma_cli.text.markup import without_entities, without_tags


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
