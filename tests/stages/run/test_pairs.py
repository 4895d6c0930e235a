from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from mexma_cli.formats.bitext import MinedPair
from mexma_cli.stages.run.page import _without_gaps
from mexma_cli.stages.run.pairs import PairFiles, histogram


@pytest.mark.parametrize(
    ("scores", "bins"),
    [
        ([0.5] * 9, [(0.5, 0.5, 9)]),  # of one value
        ([0.9998, 0.9997], [(0.9997, 0.9998, 2)]),
        ([1.0, *[0.75] * 30, 0.25], [(0.85, 1, 1), (0.7, 0.85, 30), (0.4, 0.7, 0), (0.25, 0.4, 1)]),
    ],
)
def test_bins_are_as_many_as_scores_need_and_empty_ones_are_one(
    scores: list[float], bins: list[tuple[float, float, int]]
) -> None:
    found = histogram(np.array(scores, np.float32), len(scores), probable=True)
    rows = _without_gaps(**found)  # type: ignore[arg-type]
    assert [row[:3] for row in rows] == [
        (pytest.approx(low), pytest.approx(high), n) for low, high, n in bins
    ]
    assert sum(row[3] for row in rows) == pytest.approx(sum(1 - one for one in scores), abs=0.02)


def test_the_least_score_above_the_threshold_begins_a_bin() -> None:
    scores = np.array([0.9] * 40 + [0.62, 0.61] + [0.1] * 22, np.float32)
    found = histogram(scores, above=41)
    rows = _without_gaps(**found)
    assert found["least"] == pytest.approx(0.62) and [low for low, *_ in rows].count(found["least"]) == 1
    assert sum(count for low, _, count, _ in rows if low >= found["least"]) == 41
    assert sum(count for *_, count, _ in rows) == 64
    assert "least" not in histogram(scores, above=64)
    none = histogram(scores, above=0)
    assert none["least"] > none["edges"][-1] and sum(none["counts"]) == 64


def test_every_format_is_written_and_what_is_changed_for_it_is_counted(tmp_path: Path) -> None:
    formats = {"p.tsv": "tsv", "p.txt": "moses", "p.jsonl": "jsonl"}
    files = PairFiles(languages=("fra_Latn", "eng_Latn"), formats=formats, with_ids=False)
    pairs = [MinedPair(0.5, "un\tdeux", "one two", 1, 2)]
    assert files.write(tmp_path / "out", lambda kind: pairs) == 2
    rows = {path.name: path.read_text() for path in (tmp_path / "out").iterdir()}
    assert rows["p.tsv"] == "0.5\tun deux\tone two\n" and len(rows) == 4
    assert json.loads(rows["p.jsonl"])["source"] == "un\tdeux"
