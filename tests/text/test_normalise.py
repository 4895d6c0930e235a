"""`--clean`: what Moses and LASER do to a line, in its own case."""

from __future__ import annotations

import gzip
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacremoses import MosesPunctNormalizer

from mexma_cli.text.normalise import cleaner, normal_form
from tests.endless import processor_seconds

ROOT = Path(__file__).parent.parent.parent
LANGUAGES = {
    "eng_Latn": "en",
    "deu_Latn": "de",
    "spa_Latn": "es",
    "fra_Latn": "fr",
    "ces_Latn": "cs",
    "zho_Hans": "zh",
    "pes_Arab": "fa",
}


@pytest.mark.parametrize(
    ("language", "line", "cleaned"),
    [
        ("eng_Latn", "“It’s here”, he said…", '"It\'s here," he said...'),
        ("eng_Latn", "one–two — three", "one-two - three"),
        ("deu_Latn", "„Nein“, sagte er.", '"Nein", sagte er.'),
        ("deu_Latn", 'Er sagte "nein." Dann', 'Er sagte "nein". Dann'),
        ("spa_Latn", 'dijo "no," y', 'dijo "no", y'),
        ("fra_Latn", "Il dit : «\u00a0Non\u00a0» !", 'Il dit: "Non" !'),
        ("fra_Latn", "1\u00a0000 habitants", "1,000 habitants"),
        ("ces_Latn", "1\u00a0000 obyvatel", "1,000 obyvatel"),
        ("ces_Latn", 'řekl "ne," a', 'řekl "ne," a'),
        ("rus_Cyrl", "1\u00a0000 жителей", "1.000 жителей"),
        ("und", 'she said "no", and', 'she said "no", and'),
        ("und", "( a ) ,  b ; 5 %", "(a), b; 5%"),
        ("und", "a\tb\x07c\u200bd", "a b c d"),
        ("und", "STRASSE İstanbul", "STRASSE İstanbul"),
        ("und", " \u00a0 ", ""),
        ("und", "", ""),
    ],
)
def test_cases(language: str, line: str, cleaned: str) -> None:
    assert cleaner(language)(line) == cleaned


@given(
    st.text("ab1 ()[]%:;,.?!\"'`„“”‘’‚´–—…«»\u00a0º<Ccm\r\t", max_size=16), st.sampled_from(sorted(LANGUAGES))
)
def test_any_punctuation_is_as_sacremoses_leaves_it(line: str, language: str) -> None:
    moses = MosesPunctNormalizer(lang=LANGUAGES[language])
    assert cleaner(language)(line) == moses.normalize(line.replace("\r", " ").replace("\t", " "))


def assert_is_moses(language: str, lines: list[str]) -> None:
    """It is sacremoses' output after Moses' removal of category C, and a second cleaning changes nothing."""
    moses = MosesPunctNormalizer(lang=LANGUAGES[language])
    clean = cleaner(language)
    cleaned = [clean(line) for line in lines]
    visible = ["".join(" " if unicodedata.category(c)[0] == "C" else c for c in line) for line in lines]
    assert cleaned == [moses.normalize(line) for line in visible]
    assert cleaned == [clean(line) for line in cleaned]


@pytest.mark.parametrize("language", ["spa_Latn", "eng_Latn"])
def test_text_of_the_demo(language: str) -> None:
    text = ROOT / f"examples/spa-eng/{language[:3]}.txt"
    assert_is_moses(language, text.read_text(encoding="utf-8").split("\n")[:300])


@pytest.mark.parametrize("language", LANGUAGES)
def test_real_text(language: str, shared: Path) -> None:
    with gzip.open(shared / f"data/ntrex128/{language}.txt.gz", "rt", encoding="utf-8") as file:
        assert_is_moses(language, file.read().split("\n")[:300])


MARKS = "\u0301\u0316\u0327\u0344\u05b0\u0f73\u3099"


@given(st.text(f"ae\uac01\ufb01\u1e69{MARKS}", max_size=12), st.text(MARKS, max_size=50))
def test_normal_forms_are_unicodes(start: str, marks: str) -> None:
    text = start + marks * 2 + start
    assert normal_form("NFC", text) == unicodedata.normalize("NFC", text)
    assert normal_form("NFKC", text) == unicodedata.normalize("NFKC", text)


def test_marks_in_disorder_take_no_endless_time() -> None:
    with processor_seconds(60):
        found = normal_form("NFC", "a" + "\u0301\u0316" * 500_000)
    assert found == "\u00e1" + "\u0316" * 500_000 + "\u0301" * 499_999
