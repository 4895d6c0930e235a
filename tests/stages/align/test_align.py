"""Which lines of a document may well be on one side only."""

from __future__ import annotations

from mexma_cli.stages.align.align import headings

TEXT = [
    "It was late.",
    "Nobody came,",
    "« Qui ? »",
    "这是一个句子。",
    "A line that goes on without any mark at its end for long",
]


def test_headings_and_page_numbers_are_told_from_sentences() -> None:
    found = headings([*TEXT, *TEXT, "Chapter 3", "97", "* * *"])
    assert found.tolist() == [0] * 10 + [1, 2, 2]


def test_a_heading_that_comes_again_is_a_running_head() -> None:
    """Whatever page number is beside it; one that comes twice may be two chapters' own."""
    found = headings([*TEXT * 6, "12 THE SEA", "Notes", "The Sea 13", "Notes", "14 THE SEA"])
    assert found.tolist() == [0] * 30 + [2, 1, 2, 1, 2]


def test_in_a_text_without_marks_no_line_is_a_heading() -> None:
    assert not headings(["yes", "i am here", "where are you", "12", *TEXT]).any()
    assert headings([]).tolist() == []
