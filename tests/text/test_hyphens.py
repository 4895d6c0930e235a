"""Words that a hyphen and a line end divide."""

from __future__ import annotations

import pytest

from mexma_cli.text.hyphens import with_visible_hyphens, without_line_hyphens

OTHER = "Well-known words. Ein Nachteil. Die Vor- und Nachteile, das Für und Wider. Anti-war, anti-gun. "


def put_together(text: str, other: str = "") -> str:
    return without_line_hyphens([text, other], [0])[0][0]


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("hän ilme-\nstyi ja", "hän ilmestyi ja"),
        ("ilme\u2010 \n\tstyi", "ilmestyi"),
        ("a well-\nknown man", "a well-known man"),
        ("a well\u2010\nknown man", "a well\u2010known man"),
        ("die Haupt-\nund Nebenwege", "die Haupt- und Nebenwege"),
        ("die 30-\njährigen", "die 30-jährigen"),
        ("1990-\n1995", "1990-1995"),
        ("Jean-\nPaul", "Jean-Paul"),
        ("ein US-\namerikanischer", "ein US-amerikanischer"),
        ("une demi-\nfinale. Demi-finale", "une demi-finale. Demi-finale"),
        ("est-ce-\nque", "est-ce-que"),
        ("ANTI-\nwar", "ANTI-war"),
        ("sanoi hän -\nja meni", "sanoi hän -\nja meni"),
        ("he said--\nand went", "he said--\nand went"),
        ("the end-\n\nof it", "the end-\n\nof it"),
        ("ends in a hyphen-\n", "ends in a hyphen-\n"),
        ("שלום-\nרב", "שלום-\nרב"),
        ("ilme-\nstymi-\nnen", "ilmestyminen"),
        ("नमस्¬\nते", "नमस्ते"),
    ],
)
def test_hyphens_at_line_ends(text: str, right: str) -> None:
    assert put_together(text, OTHER) == right


def test_words_within_lines_say_whether_a_hyphen_is_their_own() -> None:
    assert put_together("on-\nline") == "online"
    assert put_together("on-\nline", "It is on-line. On-line it is, not online.") == "on-line"
    assert put_together("On-\nline", "It is on-line, as others are online, online.") == "Online"
    assert put_together("sugar-\nbased", "grain-based and water-based") == "sugarbased", "too few"
    assert put_together("sugar-\nbased", "Sugar, sugar is grain-based, a based word") == "sugar-based"
    assert put_together("sugar-\nbased", "grain-based " * 10) == "sugar-based"
    assert put_together("שלום-\nרב", "שלום-רב") == "שלום-רב"


def test_text_without_divided_words_keeps_its_hyphens() -> None:
    wrapped = "a well-\nknown man of the ultra-\nright who is well-known"
    assert put_together(wrapped) == "a well-known man of the ultra-right who is well-known"
    assert "ultraright" in put_together(
        f"{wrapped}, known\nin inter-\nnal and inter-\nnational politics, internal or international"
    )


def test_only_wrapped_texts_change_and_words_are_counted() -> None:
    texts = ["ilme-\nstyi, Vor-\nund, shor-\nter", "ilme-\nstyi", "Haupt- und Nebenwege"]
    found = without_line_hyphens(texts, [0])
    assert found == (["ilmestyi, Vor- und, shorter", *texts[1:]], 2)
    assert without_line_hyphens(texts, []) == (texts, 0)


def test_soft_hyphens_are_seen_in_words_at_line_ends_only() -> None:
    assert with_visible_hyphens("il\xadme\xad\nstyi, no\xad \n\xadword.\xad\n") == (
        "il\xadme¬\nstyi, no\xad \n\xadword.\xad\n"
    )
