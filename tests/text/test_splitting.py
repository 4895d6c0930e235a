"""Paragraphs into sentences."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sentence_splitter import SentenceSplitter

from mexma_cli.errors import MexmaError
from mexma_cli.text.splitting import default_splitter, splitter

SPANISH = Path(__file__).parents[2] / "examples" / "spa-eng" / "spa.txt"
SPANISH_RULES, FRENCH_RULES = SentenceSplitter("es"), SentenceSplitter("fr")
FRENCH = {name: splitter(name, "fra_Latn") for name in ("sentencex", "moses")}
TRICKY = "Mr. U.S. maison. Fin? « » \" \"Oui . ... No. 3 mot Mot (a) .” e-mail. п. Э a '' St. l'eau. \xa0"
WORDS = [*TRICKY.split(" "), "Fin ?"]


def said(name: str, language: str, paragraph: str) -> list[str]:
    return [paragraph[start:end] for start, end in splitter(name, language)(paragraph)]


@pytest.mark.parametrize("name", ["sentencex", "moses"])
def test_sentences_end_where_they_end(name: str) -> None:
    paragraph = "  Mme Durand est là. Il pleut !  Où est-il ? "
    assert said(name, "fra_Latn", paragraph) == ["Mme Durand est là.", "Il pleut !", "Où est-il ?"]
    assert said(name, "fra_Latn", "") == said(name, "fra_Latn", " \t ") == []


def test_scripts_have_marks_of_their_own() -> None:
    assert said("auto", "zho_Hans", "你好。他在哪里？") == ["你好。", "他在哪里？"]
    assert said("auto", "hin_Deva", "यह घर है। वह कहाँ है?") == ["यह घर है।", "वह कहाँ है?"]


def test_the_default_is_the_better_one() -> None:
    assert default_splitter("fra_Latn") == default_splitter("swh_Latn") == "moses"
    assert default_splitter("deu_Latn") == default_splitter("jpn_Jpan") == "sentencex"


@given(st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join))
@settings(max_examples=200)
def test_moses_rules_say_the_same_about_a_few_words_as_about_the_paragraph(paragraph: str) -> None:
    found = [paragraph[start:end] for start, end in FRENCH["moses"](paragraph)]
    assert compact(found) == compact(FRENCH_RULES.split(paragraph))


def test_moses_rules_say_the_same_about_real_text() -> None:
    lines = SPANISH.read_text(encoding="utf-8").splitlines()[:600]
    for start in range(0, len(lines), 12):
        paragraph = " ".join(lines[start : start + 12])
        assert compact(said("moses", "spa_Latn", paragraph)) == compact(SPANISH_RULES.split(paragraph))


def compact(sentences: list[str]) -> list[str]:
    return [text for sentence in sentences if (text := "".join(sentence.split()))]


@given(st.text(max_size=60))
@settings(max_examples=100)
def test_spans_ascend_and_hold_all_that_is_not_white_space(paragraph: str) -> None:
    for split in FRENCH.values():
        spans = split(paragraph)
        assert all(end <= start for (_, end), (start, _) in pairwise(spans))
        assert all(paragraph[start:end].strip() == paragraph[start:end] for start, end in spans)
        assert "".join("".join(paragraph[a:b].split()) for a, b in spans) == "".join(paragraph.split())


def test_endless_words_take_no_endless_time() -> None:
    paragraph = ("a" * 300_000 + ". ") * 3 + "." * 300_000 + " B."
    assert splitter("moses", "eng_Latn")(paragraph)


def test_sat_needs_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MexmaError, match="wtpsplit"):
        splitter("sat", "fra_Latn", "folder")
