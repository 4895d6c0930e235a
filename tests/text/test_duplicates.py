"""Equal lines are found, in bounded memory, and the same ones when a run is done again."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mexma_cli.text.duplicates import Seen

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
