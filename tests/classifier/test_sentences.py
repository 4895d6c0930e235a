from __future__ import annotations

import unicodedata

import numpy as np
import pytest

from mexma_cli.classifier import sentences
from mexma_cli.classifier.sentences import MARKS, count_shared_numbers, look_at_sentences, missing_names

SOURCE = ["Wir trafen Владимир Путин 2016, um 14 Uhr?", "Ohne alles", "14 und 14: „ja“, nein", ""]
TARGET = ["We met Vladimir Putin in 2016, at 2", "Without anything", "14 and 14 and 14", ""]


def pairs(*rows: int) -> np.ndarray:
    return np.array(rows, dtype=np.int64)


def test_words_are_cut_where_the_script_changes() -> None:
    found = sentences.WORD.findall("Der3 カタカナー語 ไทยที่_xé 東京tower")
    assert found == ["Der", "カタカナー", "語", "ไทยที่", "xé", "東京", "tower"]


def test_letters_and_their_marks_may_be_composed_or_not() -> None:
    text = "Hơn 40 người Việt ở Đà Nẵng, theo Nguyễn."
    one, other = look_at_sentences([text]), look_at_sentences([unicodedata.normalize("NFD", text)])
    assert one.lengths.tolist() == other.lengths.tolist() == [len(text)]
    assert one.trigrams.values.tolist() == other.trigrams.values.tolist()


def test_marks_are_counted_however_they_are_written() -> None:
    found = look_at_sentences(["“Ja”?", "「はい」、？", "a, b; c: d"])
    marks = dict(zip(MARKS, found.marks.T.tolist(), strict=True))
    assert marks == {"question": [1, 1, 0], "comma": [0, 1, 2], "quote": [2, 2, 0], "colon": [0, 0, 1]}
    assert found.lengths.tolist() == [5, 6, 10]


def test_each_number_meets_one_of_the_other_side() -> None:
    own, other = look_at_sentences(SOURCE), look_at_sentences(TARGET)
    shared = count_shared_numbers(own.numbers, other.numbers, pairs(0, 1, 2, 2, 3), pairs(0, 1, 2, 0, 3))
    assert shared.tolist() == [1, 0, 2, 0, 0]


def test_a_name_is_found_in_another_script() -> None:
    own, other = look_at_sentences(SOURCE), look_at_sentences(TARGET)
    # Uhr is a capitalised word, too, and has no counterpart in English.
    assert missing_names(own, other, pairs(0, 0, 1), pairs(0, 1, 0)).tolist() == [1, 3, 0]
    assert missing_names(other, own, pairs(0, 0), pairs(0, 1)).tolist() == [0, 2]


def test_sentences_are_looked_at_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = look_at_sentences(SOURCE)
    monkeypatch.setattr(sentences, "_LINES", 1)
    parts = look_at_sentences(SOURCE)
    for name, value in vars(whole).items():
        for one, other in zip(
            *(vars(v).values() if hasattr(v, "ends") else [v] for v in (value, getattr(parts, name))),
            strict=True,
        ):
            np.testing.assert_array_equal(one, other)
