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
    assert found.tolist() == [False] * 10 + [True] * 3


def test_in_a_text_without_marks_no_line_is_a_heading() -> None:
    assert not headings(["yes", "i am here", "where are you", "12", *TEXT]).any()
    assert headings([]).tolist() == []
