"""Correlations against scipy's, and the layouts of scored pairs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mexma_cli.evaluation.sts import cosines, find_files, pearson, read_pairs, score_pairs, spearman
from tests.evaluation.given import put


def scipys(name: str, left: Any, right: Any) -> float:
    """Its correlation; it takes a second to import."""
    stats = pytest.importorskip("scipy.stats", reason="scipy is what the correlations are held against")
    return float(getattr(stats, f"{name}r")(left, right).statistic)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(-3, 3)), min_size=2, max_size=40))
def test_correlations_are_scipys(pairs: list[tuple[int, int]]) -> None:
    a, b = np.array(pairs, dtype=np.float64).T
    if len(set(a)) == 1 or len(set(b)) == 1:
        assert np.isnan(spearman(a, b)) and np.isnan(pearson(a, b))
        return
    assert spearman(a, b) == pytest.approx(scipys("spearman", a, b), abs=1e-12)
    assert pearson(a, b) == pytest.approx(scipys("pearson", a, b), abs=1e-12)


@pytest.mark.parametrize("count", [2, 3, 6, 7, 10])
def test_constant_numbers_correlate_with_nothing(count: int) -> None:
    constant, rising = np.full(count, 0.1), np.arange(count) ** 2.0
    assert np.isnan(pearson(constant, rising)) and np.isnan(pearson(rising, constant))
    alike = np.ones((count, 3))
    assert score_pairs(alike, alike, rising) == {"spearman": None, "pearson": None}


def test_scores_of_pairs_follow_their_cosines() -> None:
    random = np.random.default_rng(0)
    left, right = random.normal(size=(2, 50, 8)).astype(np.float32)
    gold = random.integers(0, 6, size=50) / 1.0
    expected = [
        float(a @ b / np.linalg.norm(a) / np.linalg.norm(b)) for a, b in zip(left, right, strict=True)
    ]
    assert cosines(left, right) == pytest.approx(expected, abs=1e-6)
    found = score_pairs(left, right, gold)
    assert found["spearman"] == pytest.approx(100 * scipys("spearman", expected, gold), abs=1e-3)
    assert found["pearson"] == pytest.approx(100 * scipys("pearson", expected, gold), abs=1e-3)


def test_a_zero_vector_is_similar_to_nothing() -> None:
    assert cosines(np.zeros((1, 3)), np.ones((1, 3))).tolist() == [0.0]


LAYOUTS = {
    "plain.tsv": "5\tA man.\tOne man.\n0.5\tA dog.\tA cat.\n",
    "parts.tsv": "5\tA man.\tOne man.\tMSRvid\n0.5\tA dog.\tA cat.\tSMT\n",
    "sick.tsv": "5\tENTAILMENT\tA man.\tOne man.\n0.5\tNEUTRAL\tA dog.\tA cat.\n",
    "sts-test.csv": "main\tnews\t2012\t1\t5.0\tA man.\tOne man.\n"
    "main\tnews\t2012\t2\t0.5\tA dog.\tA cat.\tx\ty\n",
    "stsb-de-dev.csv": '"A man.",One man.,5\nA dog.,A cat.,0.5\n',
    "SICK.txt": "pair_ID\tsentence_A\tsentence_B\tentailment_label\trelatedness_score\n"
    "1\tA man.\tOne man.\tNEUTRAL\t5\n2\tA dog.\tA cat.\tNEUTRAL\t0.5\n",
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text(LAYOUTS[name], encoding="utf-8")
    pairs = read_pairs(path)
    assert pairs.gold.tolist() == [5.0, 0.5]
    assert (pairs.left, pairs.right) == (("A man.", "A dog."), ("One man.", "A cat."))
    assert pairs.name == name.rpartition(".")[0]
    assert pairs.parts == {"parts.tsv": ("MSRvid", "SMT"), "sts-test.csv": ("main", "main")}.get(
        name, ("", "")
    )


def test_a_split_goes_by_its_folder(tmp_path: Path) -> None:
    names = ("stsb/dev.deu_Latn.tsv", "sick/dev.tsv", "sick/devoted.tsv")
    put(tmp_path, dict.fromkeys(names, LAYOUTS["plain.tsv"]))
    assert [read_pairs(tmp_path / name).name for name in names] == [
        "stsb/dev.deu_Latn",
        "sick/dev",
        "devoted",
    ]


@pytest.mark.parametrize(("year", "sources"), [("", ""), ("2016", "\tlink\tlink")])
def test_semeval_publishes_pairs_and_scores_apart(tmp_path: Path, year: str, sources: str) -> None:
    pairs_file = tmp_path / f"STS{year}.input.news.txt"
    pairs_file.write_text(
        "".join(f"{pair}{sources}\n" for pair in ("A man.\tOne man.", "A b.\tC d.", "A dog.\tA cat."))
    )
    (tmp_path / f"STS{year}.gs.news.txt").write_text("5\n\n0.5\n")
    (file,) = find_files([tmp_path])
    pairs = read_pairs(file)
    assert (pairs.name, pairs.gold.tolist(), pairs.unscored) == ("news", [5.0, 0.5], 1)
    assert pairs.left == ("A man.", "A dog.")


def test_blank_lines_of_sick_are_no_pairs(tmp_path: Path) -> None:
    (tmp_path / "SICK.txt").write_text(LAYOUTS["SICK.txt"] + "\n")
    assert len(read_pairs(tmp_path / "SICK.txt").gold) == 2
    (tmp_path / "a.tsv").write_text("\n1\ta\tb\n2\tc\td\n")  # nor does an empty line tell the layout
    assert read_pairs(tmp_path / "a.tsv").left == ("a", "c")


def test_scores_beside_a_packed_input(tmp_path: Path) -> None:
    put(tmp_path, {"STS.input.x.txt.gz": "a\tb\nc\td\n", "STS.gs.x.txt": "1\n2\n"})
    assert read_pairs(tmp_path / "STS.input.x.txt.gz").gold.tolist() == [1, 2]


def test_a_file_that_is_named_twice_counts_once(tmp_path: Path) -> None:
    put(tmp_path, {name: LAYOUTS["plain.tsv"] for name in ("a.tsv", "a.tsv.gz")})
    named = [tmp_path, tmp_path / "a.tsv", tmp_path / "a.tsv"]
    assert find_files(named) == [tmp_path / "a.tsv"]


def test_a_folder_stands_for_its_files(tmp_path: Path) -> None:
    put(tmp_path, {"STS12.tsv.gz": LAYOUTS["plain.tsv"], "sts-test.csv": LAYOUTS["sts-test.csv"]})
    put(tmp_path, {"readme.txt": "not one of them\n"})
    assert [read_pairs(path).name for path in find_files([tmp_path])] == ["STS12", "sts-test"]
