"""Paragraphs into sentences."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
import sentencex
from hypothesis import given
from hypothesis import strategies as st
from sentence_splitter import SentenceSplitter

from mexma_cli.errors import MexmaError
from mexma_cli.text.splitting import Splitter, default_splitter, splitter
from tests.endless import processor_seconds

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
def test_spans_ascend_and_hold_all_that_is_not_white_space(paragraph: str) -> None:
    for split in FRENCH.values():
        spans = split(paragraph)
        assert all(end <= start for (_, end), (start, _) in pairwise(spans))
        assert all(paragraph[start:end].strip() == paragraph[start:end] for start, end in spans)
        assert "".join("".join(paragraph[a:b].split()) for a, b in spans) == "".join(paragraph.split())


def test_endless_words_take_no_endless_time() -> None:
    paragraph = ("a" * 300_000 + ". ") * 3 + "." * 300_000 + " B."
    assert splitter("moses", "eng_Latn")(paragraph)


MARKS = ". ? ! … · 。 ！？ । ؟ ' \" “ ” ‘ « » 「 」 ( ) () [] < & - _ * a 中 ก \u0301 .\u0301 \u00a0 \u200d"
PIECES = """?! |1. |1.1. |a. |A. |a.|a.b.|A.B. |Mr. |e.g. |No. 1 |... |… |?" |." A|"A. b|“A.” |(a. |a@b.|
- |x. (|http://|www.|http://a.b/c?d=e&f. |?!|a.\u00a0|「あ。」"""
RUNS = [" ", *MARKS.split(" "), *PIECES.replace("\n", "").split("|")]
"""What repeats itself in text that no person wrote."""


@pytest.mark.parametrize("language", ["eng_Latn", pytest.param("fra_Latn", marks=pytest.mark.slow)])
def test_any_run_of_marks_takes_moses_rules_a_time_that_grows_with_its_length(language: str) -> None:
    """A square of these lengths would take hours: then the processor's time that the test may have ends."""
    split = splitter("moses", language)
    with processor_seconds(60):
        for run in RUNS:
            for length in (20_000, 40_000):
                check_all_there(run, split, length)


@pytest.mark.parametrize(
    "language", ["deu_Latn", *(pytest.param(tag, marks=pytest.mark.slow) for tag in ("jpn_Jpan", "hin_Deva"))]
)
def test_any_run_of_marks_comes_to_sentencex_in_pieces(
    language: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it gets together may take it the square of its length."""
    split, ends, given = splitter("sentencex", language), sentencex.get_sentence_boundaries, []

    def counted(tag: str, text: str) -> list[dict[str, int]]:
        given.append(len(text))
        return ends(tag, text)

    monkeypatch.setattr(sentencex, "get_sentence_boundaries", counted)
    for run in RUNS:
        work = []
        for length in (20_000, 40_000):
            given.clear()
            check_all_there(run, split, length)
            work.append(sum(size**2 for size in given))
        assert work[1] < 2.2 * work[0] < 2.2 * 20_000 * 3_000, run


def check_all_there(run: str, split: Splitter, length: int) -> None:
    paragraph = (run * length)[:length]
    kept = [paragraph[start:end] for start, end in split(paragraph)]
    assert "".join("".join(kept).split()) == "".join(paragraph.split())


def test_a_quotation_mark_that_is_not_closed_hides_few_sentences() -> None:
    start, sentence = "He said “Hello. And went. ", "It was late. "
    paragraph = start + sentence * 300 + "She said “Yes.” All is well."
    found = said("sentencex", "eng_Latn", paragraph)
    assert len(found) > 200
    assert found[-2:] == ["She said “Yes.”", "All is well."]


def test_a_wide_space_before_a_full_stop_is_a_space() -> None:
    """sentencex panicked there (a full stop after one letter ends no sentence)."""
    for space in ("\u00a0", "\u3000", "\u2009"):
        sentence = f"Das ist Plan A{space}. Er ist gut."
        assert said("sentencex", "deu_Latn", sentence) == [sentence]


def test_sat_needs_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MexmaError, match="wtpsplit"):
        splitter("sat", "fra_Latn", "folder")
