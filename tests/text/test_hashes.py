"""Hashes: what they tell apart, and what not."""

from __future__ import annotations

from mexma_cli.text.hashes import fold, folded, pair_hash


def test_lines_and_columns_are_excluded() -> None:
    hashes = folded(["12\tA sentence.\tanother", "", " \t "])
    assert hashes == {fold("12 a sentence. ANOTHER"), fold("12"), fold("a  sentence."), fold("another")}


def test_a_pair_has_an_order_and_a_seed() -> None:
    assert pair_hash("a", "b") == pair_hash("a", "b")
    assert len({pair_hash("a", "b"), pair_hash("b", "a"), pair_hash("a", "b", seed=1)}) == 3


def test_case_spaces_punctuation_and_encoding_make_no_other_sentence() -> None:
    assert fold("Hola. A todos!") == fold("hola a\u00a0 todos")
    assert fold("It's 5 % more") == fold("its 5 more")
    assert fold("Caf\u00e9") == fold("cafe\u0301") == fold("\ufeffca\u00adf\u200be\u0301") == fold("ＣＡＦÉ")
    for one, other in [("5 more", "6 more"), ("नमस्ते", "नमसत"), ("!", "?"), ("a", "b"), ("é", "e")]:
        assert fold(one) != fold(other)
