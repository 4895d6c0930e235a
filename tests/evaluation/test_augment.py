"""Hard negatives by rule: what changes, what does not, and that a seed says it all."""

from __future__ import annotations

import re
from random import Random

import pytest

from mexma_cli.evaluation.augment import (
    _OPPOSITES,
    KINDS,
    PER_KIND,
    _Alike,
    _opposites,
    augment,
    negatives_of,
)

TEXT = [
    "The river rose by 12.5 metres in 1998, and 3,000 people left Hanoi.",
    "Maria Lopez was the 21st winner, and Anna Berg came second.",
    "He did not go to Vienna because the road was closed.",
    "She can't swim, but she will travel from Lima on Monday.",
    "Twenty ships are in the harbour of Oslo.",
    "Yesterday the mayor met Maria Lopez.",
    "It rains.",
]


def made(lines: list[str], kind: str, source: str, seed: int = 0) -> list[str]:
    return [one.sentence for one in augment(lines, seed) if (one.kind, one.source) == (kind, source)]


def test_always_the_same_and_each_once() -> None:
    found = augment(TEXT, seed=3)
    assert found == augment(TEXT, seed=3) != augment(TEXT, seed=4)
    sentences = [one.sentence for one in found]
    assert len(set(sentences)) == len(sentences) and not set(sentences) & set(TEXT)
    assert {one.kind for one in found} == set(KINDS)
    for source in TEXT:
        for kind in KINDS:
            assert len([one for one in found if (one.source, one.kind) == (source, kind)]) <= PER_KIND
    assert all(one.source != "It rains." for one in found)


def test_a_few_of_each_sentence_of_all_kinds() -> None:
    found = negatives_of(TEXT, 3)
    assert found == negatives_of(TEXT, 3) != negatives_of(TEXT, 3, seed=1)
    for line, chosen in found.items():
        kinds = {one.sentence: one.kind for one in augment(TEXT) if one.source == line}
        assert len(set(chosen)) == len(chosen) == min(3, len(kinds)) and line not in chosen
        assert len({kinds[sentence] for sentence in chosen}) == min(3, len(set(kinds.values())))
    assert "It rains." not in found


def test_a_sentence_alone_gives_what_it_gives_among_others() -> None:
    """Names apart, which come from the text."""
    for kind in ("number", "causality"):
        assert made(TEXT, kind, TEXT[0]) == made(TEXT[:1], kind, TEXT[0])


def test_patterns_that_are_not_tried_would_not_have_matched() -> None:
    entries = [line.split("\t")[0] for line in _OPPOSITES.read_text(encoding="utf-8").splitlines()]
    odd = [entry.replace("i", letter) for entry in entries[::9] for letter in "\u0130\u0131"]
    odd += [entry.replace("s", "\u017f").replace("k", "\u212a") for entry in entries[::5]]
    lines = [*TEXT, *entries, *map(str.upper, entries), *odd, "un-able, 'above' it_above above-board"]
    every = _opposites().in_line(" ".join(entries))
    assert len(every) == len(entries)
    for line in lines:
        tried = _opposites().in_line(line)
        assert [one for one in every if one[0].search(line)] == [one for one in tried if one[0].search(line)]
        assert len(tried) < 20


def test_names_are_sampled_as_from_a_list_of_all_that_fit() -> None:
    names = ["Ham", "Abraham", "Ab", "Io", "Lima", "Vienna", "Anna", "Maria Lopez", "Maria", "Hanoi", "Oslo"]
    alike = _Alike(names)
    lines = ["Ham saw Anna.", "Abraham and Viennas", "Maria Lopez in Lima", "Io", "HanoiOsloLima Vienna"]
    for seed, (line, name) in enumerate((line, name) for line in lines for name in names):
        fitting = [one for one in names if one not in line and name not in one]
        wanted = Random(seed).sample(fitting, min(PER_KIND, len(fitting)))
        assert list(alike.sampled(line, name, Random(seed))) == wanted


def test_numbers_keep_their_look() -> None:
    shape = re.compile(r"The river rose by \d\d\.\d metres in \d{4}, and \d,\d{3} people left Hanoi\.")
    found = made(TEXT, "number", TEXT[0])
    assert len(found) == PER_KIND and all(shape.fullmatch(sentence) for sentence in found)
    years = {
        re.findall(r"in (\d{4})", sentence)[0]
        for seed in range(9)
        for sentence in made(TEXT, "number", TEXT[0], seed)
    }
    assert len(years) > 1 and all(1900 < int(year) < 2060 for year in years)


@pytest.mark.parametrize("seed", range(5))
def test_ordinals_and_words(seed: int) -> None:
    for sentence in made(TEXT, "number", TEXT[1], seed):
        number, suffix = re.findall(r"(\d\d)(\w\w) winner", sentence)[0]
        right = "th" if number[0] == "1" else {"1": "st", "2": "nd", "3": "rd"}.get(number[1], "th")
        assert suffix == right
    assert all(
        re.match(r"(Thirty|Forty|Fifty|Sixty|Seventy|Eighty|Ninety) ships", sentence)
        for sentence in made(TEXT, "number", TEXT[4], seed)
    )


def test_names_are_of_the_text_and_of_their_kind() -> None:
    found = made(TEXT, "entity", TEXT[2])
    assert {re.findall(r"go to (\w+) because", sentence)[0] for sentence in found} == {"Lima"}
    assert set(made(TEXT, "entity", TEXT[5])) == {"Yesterday the mayor met Anna Berg."}
    days = [sentence for sentence in made(TEXT, "entity", TEXT[3]) if "from Lima" in sentence]
    assert days and all(
        re.search(r"on (Tues|Wednes|Thurs|Fri|Satur|Sun)day\.", sentence) for sentence in days
    )


def test_negation_goes_and_comes() -> None:
    assert "He did go to Vienna because the road was closed." in made(TEXT, "causality", TEXT[2])
    assert "He did not go to Vienna because the road was not closed." in made(TEXT, "causality", TEXT[2])
    assert "He did not go to Vienna although the road was closed." in made(TEXT, "causality", TEXT[2])
    assert any(sentence.startswith("She can swim") for sentence in made(TEXT, "causality", TEXT[3]))
    for line in ("She can't swim.", "She can’t swim."):
        assert made([line], "causality", line) == ["She can swim."]
    assert made(["A must-see can-do."], "causality", "A must-see can-do.") == []
    assert "Twenty ships are not in the harbour of Oslo." in made(TEXT, "causality", TEXT[4])


def test_capitals_stay() -> None:
    line = "Because it was late, all shops were open."
    found = made([line], "causality", line)
    assert "Although it was late, all shops were open." in found
    assert "Because it was early, all shops were open." in found


@pytest.mark.parametrize(
    "line",
    ["No one came.", "One of them left.", "They hate one another.", "This one is red.", "Wait a second."],
)
def test_words_that_count_nothing_stay(line: str) -> None:
    assert made([line], "number", line) == []
    assert made(["One man came."], "number", "One man came.")
