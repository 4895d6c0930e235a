"""Tatoeba: precision at 1, and the papers' groups of languages."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean

import numpy as np
import pytest

from mexma_cli.errors import MexmaError
from mexma_cli.evaluation.tatoeba import (
    DIRECTIONS,
    GROUPS,
    PAIRS,
    precision_at_1,
    read_tatoeba,
    tatoeba_result,
)
from mexma_cli.reporting.tables import published_rows
from tests.evaluation.given import put


def test_against_plain_numpy() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((80, 8)).astype(np.float32)
    y = (2 * x + 2 * rng.standard_normal((80, 8))).astype(np.float32)
    unit = [side / np.linalg.norm(side, axis=1, keepdims=True) for side in (x, y)]
    cosines = unit[0] @ unit[1].T
    own = np.arange(80)
    expected = [100 * (cosines.argmax(axis=axis) == own).mean() for axis in (1, 0)]
    assert list(precision_at_1(x, y)) == pytest.approx(expected)
    assert expected[0] != expected[1]


def test_files(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    put(tmp_path, {"tatoeba.ara-eng.ara": "a\nb\n", "tatoeba.ara-eng.eng": "A\nB\n"})
    put(tmp_path, {"tatoeba.cmn-eng.cmn": "c\n", "tatoeba.cmn-eng.eng": "C\n"})
    assert [(pair.language, pair.english) for pair in read_tatoeba(tmp_path)] == [
        ("ara", ["A", "B"]),
        ("cmn", ["C"]),
    ]
    assert [pair.language for pair in read_tatoeba(tmp_path, "arb_Arab")] == ["ara"]
    assert [pair.language for pair in read_tatoeba(tmp_path, "14")] == ["ara", "cmn"]
    assert "no tatoeba.<l>-eng.<l> for bul, deu, ell" in caplog.text
    with pytest.raises(MexmaError, match=r"(?m)for bul, deu$"):
        read_tatoeba(tmp_path, "ara,bul,deu")


def test_a_language_is_measured_once(tmp_path: Path) -> None:
    put(tmp_path, {"tatoeba.deu-eng.deu": "a\n", "tatoeba.deu-eng.eng": "a\n"})
    assert [pair.language for pair in read_tatoeba(tmp_path, "deu,de,deu_Latn")] == ["deu"]


def test_other_copies_of_a_text_are_not_read(tmp_path: Path) -> None:
    for name in ("deu", "eng"):
        (tmp_path / f"tatoeba.deu-eng.{name}").write_text("a\n")
        for ending in (".bak", ".gz"):
            (tmp_path / f"tatoeba.deu-eng.{name}{ending}").write_text("an older one\n")
    (pair,) = read_tatoeba(tmp_path)
    assert (pair.sentences, pair.english) == (["a"], ["a"])


def test_groups_are_the_papers() -> None:
    """Means of the DAP paper's tables 7 and 8 over our lists are those of its Table 1."""
    assert [len(codes) for codes in GROUPS.values()] == [14, 28, 36]
    systems = {row.encoder for row in published_rows("tatoeba") if "xx->eng afr" in row.scores}
    assert len(systems) == 6
    for system in systems:
        scores = {}
        for row in published_rows("tatoeba"):
            if row.encoder == system:
                scores |= row.scores
        for direction in DIRECTIONS:
            for name, codes in GROUPS.items():
                mean = fmean(scores[f"{direction} {code}"] for code in codes)
                # The tables have one decimal, and are means over three seeds.
                printed = pytest.approx(scores[f"{direction} {name}"], abs=0.12)
                assert mean == printed, (system, direction, name)


ROWS = [{"language": code, "pairs": PAIRS[code], "xx->eng": 50.0, "eng->xx": 60.0} for code in GROUPS["36"]]


def test_group_means_only_where_all_is_there(tmp_path: Path) -> None:
    whole = tatoeba_result(ROWS, tmp_path, {"name": "x"})
    assert whole.scores["xx->eng 28"] == 50.0 and whole.scores["eng->xx 36"] == 60.0
    assert tatoeba_result(ROWS[:20], tmp_path, {"name": "x"}).scores.keys() == set(DIRECTIONS)


def test_published_numbers_are_those_of_lasers_own_sets(tmp_path: Path) -> None:
    assert (PAIRS["fra"], PAIRS["tha"]) == (1000, 548)
    other = [[*ROWS, ROWS[0] | {"pairs": 999}], [ROWS[0] | {"language": "ber"}]]
    found = [tatoeba_result(rows, tmp_path, {"name": "x"}).benchmark for rows in (ROWS, *other)]
    assert found == ["tatoeba", None, None]
    (tmp_path / "codeswitch.fra.json").write_text("{}")  # sets of `eval codeswitch` have as many pairs
    assert tatoeba_result(ROWS, tmp_path, {"name": "x"}).benchmark is None
