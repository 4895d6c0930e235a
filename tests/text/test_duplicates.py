"""Equal and nearly equal sentences and copies are found, the same ones when a run is done again."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mexma_cli.text.duplicates import (
    Seen,
    copy_reason,
    copy_reasons,
    edit_distance,
    fold,
    folded,
    letters_of,
    pair_hash,
)

texts = st.lists(st.text("ab ", max_size=3), max_size=60)


def entered(seen: Seen, lines: list[str], chunk: int) -> list[int]:
    rows = [seen.first_rows(lines[at : at + chunk], at) for at in range(0, len(lines), chunk)]
    return np.concatenate([np.empty(0, np.int64), *rows]).tolist()


@given(texts, st.integers(1, 20))
def test_the_first_of_equal_lines_is_found(lines: list[str], chunk: int) -> None:
    assert entered(Seen(1 << 12), lines, chunk) == [lines.index(line) for line in lines]


@given(texts, st.integers(1, 20), st.integers(0, 4).map(lambda power: 1 << power))
def test_with_few_slots_a_row_found_is_of_the_same_line(lines: list[str], chunk: int, slots: int) -> None:
    """A forgotten line is new again; a row that is found is no copy itself."""
    rows = entered(Seen(slots), lines, chunk)
    for line, row in enumerate(rows):
        assert row <= line
        assert lines[row] == lines[line]
        assert rows[row] == row
    assert rows == entered(Seen(slots), lines, chunk)


def test_a_line_that_is_repeated_often_is_remembered_among_many_others() -> None:
    seen = Seen(1 << 8)
    found = 0
    for chunk in range(100):
        rows = seen.first_rows(["Home | Contact", *(f"line {chunk} {n}" for n in range(16))], chunk * 17)
        found += int(rows[0] < chunk * 17)
    assert found > 85


def test_empty_chunks_and_empty_lines() -> None:
    seen = Seen(2)
    assert seen.first_rows([], 0).tolist() == []
    assert seen.first_rows(["", "é", "", "é"], 0).tolist() == [0, 1, 0, 1]


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


@pytest.mark.parametrize(
    ("source", "target", "reason"),
    [
        ("The same words.", "The same words.", "identical"),
        (" The same words. ", "The same words.", "identical"),
        ("Version 1.2 (2019)", "VERSION 2.0 [2024]", "near-identical"),
        ("Straße", "STRASSE!", "near-identical"),
        ("ﬁne ｗｏｒｄｓ", "fine words", "near-identical"),
        ("12:30", "8.45", "near-identical"),
        ("मुंबई २०१९", "मुंबई २०२०", "near-identical"),
        (
            "The committee met in Geneva on Monday to discuss the annual report.",
            "The committee met in Geneva on Mondays, to discuss the annual report",
            "near-identical",
        ),
        (
            "The committee met in Geneva on Monday to discuss the annual report.",
            "The commission met in Geneva on Friday to discuss the annual budget.",
            None,
        ),
        ("Le chat dort.", "The cat is asleep.", None),
        ("Ja", "Da", None),
        ("a", "b", None),
        ("O presidente chegou hoje a Madrid.", "El presidente llegó hoy a Madrid.", None),
        ("猫は寝ている。", "猫在睡觉。", None),
        ("Not empty", "123", None),
        ("Herren er min hyrde, mig fattes intet", "Herren er min hyrde, mig fattes inte", "near-identical"),
        ("उसका घर", "उसकी घर", None),  # the vowel signs count
        # from Bibles in languages that are close to one another
        (
            "I det var Liv, og Livet var Menneskenes Lys.",
            "I ham var liv, og livet var menneskenes lys.",
            None,
        ),
        ("Men Jesus svarede dem: “Min Fader", "Men Jesus svarte dem: Min Fader", None),
        ("один козел на жертву за гріх,", "один козел в жертву за грех,", None),
        ("De Arod, la familia de los aroditas;", "de Arod, a família dos Aroditas;", None),
        ("Og dei budde i Be’erseba og Molada", "De bodde i Be'erseba og Molada", None),
    ],
)
def test_reasons(source: str, target: str, reason: str | None) -> None:
    assert copy_reason(source, target) == copy_reason(target, source) == reason


@pytest.mark.parametrize(
    ("source", "target", "least"),
    [
        ("Read all about it", "Read all about us", 12 / 14),
        ("один козел на жертву за гріх,", "один козел в жертву за грех,", 20 / 23),
        ("Page ten", "Page ten of five", 7 / 13),
        ("Letters", "12:30", 0.0),
    ],
)
def test_the_limit_is_the_share_of_letters_that_need_no_edit(source: str, target: str, least: float) -> None:
    assert copy_reasons([source], [target], least) == ["near-identical"]
    assert copy_reasons([source], [target], least + 0.001) == [None]


@given(*[st.text("abc", max_size=12)] * 2)
def test_the_edit_distance_is_levenshteins(one: str, other: str) -> None:
    row = list(range(len(other) + 1))
    for place, mine in enumerate(one, 1):
        before, row[0] = row[:], place
        for at, theirs in enumerate(other, 1):
            row[at] = min(before[at] + 1, row[at - 1] + 1, before[at - 1] + (mine != theirs))
    assert edit_distance(one, other) == row[-1]


def test_letters_are_without_case_numbers_and_punctuation() -> None:
    assert letters_of("Straße 12, 2. OG") == letters_of("STRASSE 7: 3 og!") == "strasseog"
    assert letters_of("मुंबई, २०१९") == "मुंबई" and letters_of("12:30") == ""


@given(
    st.lists(st.tuples(*[st.text("abAß ﬁé9.\n한\u0301", max_size=40)] * 2), max_size=300),
    st.sampled_from([0.0, 0.6, 0.8, 0.95, 1.0]),
)
def test_many_pairs_have_the_reasons_of_each(pairs: list[tuple[str, str]], limit: float) -> None:
    pairs += [(source, source + "b") for source, _ in pairs]
    pairs += [(source[:9] + source[10:] + source, source * 2) for source, _ in pairs]  # often near-copies
    sources, targets = [source for source, _ in pairs], [target for _, target in pairs]
    wanted = [copy_reason(source, target, limit) for source, target in pairs]
    assert copy_reasons(sources, targets, limit) == wanted


@pytest.mark.parametrize(
    ("pair", "share"),
    [
        ("fra_Latn eng_Latn", 0.002),
        ("spa_Latn por_Latn", 0.0),
        ("ukr_Cyrl rus_Cyrl", 0.0),
        ("dan_Latn nob_Latn", 0.009),
    ],
)
def test_translations_are_no_copies(shared: Path, pair: str, share: float) -> None:
    """Translated news: headlines made of names may go, and what Danish and Bokmål write alike."""
    folder = shared / "data" / "ntrex128"
    sides = [
        gzip.decompress((folder / f"{n}.txt.gz").read_bytes()).decode().splitlines() for n in pair.split()
    ]
    reasons = copy_reasons(*sides)
    assert reasons == list(map(copy_reason, *sides))
    assert len(reasons) > 1000 and sum(r is not None for r in reasons) <= share * len(reasons)
    assert all(copy_reason(line, line) == "identical" for line in sides[0][:50])


def test_long_lines_are_compared_by_their_first_letters() -> None:
    line = "abcdefghij" * 20_000
    assert copy_reason(line, f"{line[:1000]}x{line[1001:]}") == "near-identical"  # in far less than a second
    assert copy_reason(line, line[:5000]) is None
