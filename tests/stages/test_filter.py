"""Duplicates: as if all pairs were in memory, however little fits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mexma_cli.stages.filter import HASHES, Judged, mark_duplicates
from mexma_cli.store import spool
from mexma_cli.text.rules import CODES, NAMES

Row = tuple[str, str, str]
"""Source, target, and the rule that is broken already."""
ROWS = st.lists(
    st.tuples(*[st.sampled_from(["a", "b", "c", "A1", "7"])] * 2, st.sampled_from(["", "", "", "short"])),
    max_size=40,
)


def batches(rows: list[Row], size: int) -> Iterator[Judged]:
    for start in range(0, len(rows), size):
        sources, targets, broken = zip(*rows[start : start + size], strict=True)
        codes = np.array([CODES.get(name, 0) for name in broken], dtype=np.uint8)
        yield Judged(
            [f"{a} {b}" for a, b in zip(sources, targets, strict=True)], sources, targets, codes, {}, []
        )


def expected(rows: list[Row], rules: list[str]) -> list[str]:
    """By plain Python, a rule after the other."""
    reasons = [reason for *_, reason in rows]
    for rule in rules:
        seen = set()
        for number, (source, target, _) in enumerate(rows):
            letters = [side.lower().strip("0123456789") or side for side in (source, target)]
            same = {
                "duplicate": (source, target),
                "duplicate-letters": tuple(letters),
                "duplicate-source": source,
                "duplicate-target": target,
            }[rule]
            if not reasons[number]:
                reasons[number] = rule if same in seen else ""
                seen.add(same)
    return reasons


@given(ROWS, st.lists(st.sampled_from(list(HASHES)), unique=True), st.integers(1, 9))
def test_the_first_of_equals_is_kept(rows: list[Row], rules: list[str], size: int) -> None:
    found = list(mark_duplicates(batches(rows, size), rules))
    assert [NAMES[code] for batch in found for code in batch.codes] == expected(rows, rules)
    assert [text for batch in found for text in batch.records] == [f"{a} {b}" for a, b, _ in rows]


def test_what_does_not_fit_into_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "BUFFER", 1 << 8)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    rows = [(f"s{n * 7 % 90}", f"t{n * 5 % 70}", "") for n in range(300)]
    found = mark_duplicates(batches(rows, 50), list(HASHES))
    assert [NAMES[code] for batch in found for code in batch.codes] == expected(rows, list(HASHES))
    assert not list(tmp_path.iterdir())
