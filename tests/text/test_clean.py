"""The filters: each reason when it should be, and none otherwise."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mexma_cli.text.clean import REASONS, SMOOTHING, PairFilter, fold, folded, pair_hash

TEXT = st.text("ab é漢 ", max_size=40).map(str.strip)


@pytest.mark.parametrize(
    ("source", "target", "reason"),
    [
        ("Bonjour", "Hello", None),
        ("", "Hello", "missing"),
        ("a", "Hello", "short"),
        ("x" * 51, "Hello", "long"),
        ("abcde", "x" * 35, None),
        ("abcde", "x" * 36, "ratio"),
        ("Good MORNING", "Bonjour", "excluded"),
        ("Bonjour", "good  morning ", "excluded"),
    ],
)
def test_reasons(source: str, target: str, reason: str | None) -> None:
    rules = PairFilter(2, 50, 3.0, frozenset({fold("Good morning")}))
    assert rules.reason(source, target) == reason
    assert rules.reason(target, source) == reason
    assert reason is None or reason in REASONS


@given(TEXT, TEXT, st.sampled_from([0.0, 1.5, 3.0]), st.integers(1, 5), st.integers(10, 30))
def test_what_is_kept_is_within_the_limits(a: str, b: str, ratio: float, shortest: int, longest: int) -> None:
    reason = PairFilter(shortest, longest, ratio).reason(a, b)
    sizes = sorted((len(a), len(b)))
    fits = sizes[0] >= shortest and sizes[1] <= longest
    if ratio:
        fits = fits and sizes[1] + SMOOTHING <= ratio * (sizes[0] + SMOOTHING)
    assert (reason is None) == fits


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
