"""What is found by meaning and by language, on vectors of which it is known."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from mexma_cli.evaluation.leakage import (
    OF_CLOUDS,
    draw_clouds,
    leakage_scores,
    measure_leakage,
    plane,
    published_as,
)
from mexma_cli.evaluation.sts import ScoredPairs
from mexma_cli.evaluation.tatoeba import GROUPS, TatoebaTest
from mexma_cli.reporting.tables import published_rows

MEANINGS = 12


def embed(sentences: Sequence[str], stated: str | None = None) -> np.ndarray:
    """A sentence is `LANGUAGE NUMBER`: one-hot of the number, then of the language."""
    vectors = np.zeros((len(sentences), MEANINGS + 2), dtype=np.float32)
    for row, sentence in enumerate(sentences):
        language, number = sentence.split()
        assert stated is None or stated.startswith(language)
        vectors[row, int(number)] = 1
        vectors[row, MEANINGS + (language == "eng")] = 1
    return vectors


def split(vectors: np.ndarray) -> dict[str, np.ndarray]:
    """Exactly the two parts."""
    language = vectors.copy()
    language[:, :MEANINGS] = 0
    return {"meaning": vectors - language, "language": language}


def pair(language: str) -> TatoebaTest:
    numbers = range(MEANINGS)
    return TatoebaTest(language, [f"{language} {n}" for n in numbers], [f"eng {n}" for n in numbers])


def test_parts_side_by_side() -> None:
    gold = np.array([5.0, 0.0, 4.0, 1.0])
    sts = ScoredPairs("own", gold, ("a 1", "a 2", "a 3", "a 4"), ("a 1", "a 3", "a 3", "a 5"), ("",) * 4)
    rows = measure_leakage([pair("fra"), pair("deu")], [sts], embed, split)
    assert [(row["data"], row["measure"], row["pairs"]) for row in rows] == [
        *(("fra", "xx->eng", 12), ("fra", "eng->xx", 12), ("deu", "xx->eng", 12), ("deu", "eng->xx", 12)),
        ("own", "spearman", 4),
    ]
    assert all(row["meaning"] == row["vectors"] == 100.0 for row in rows[:4])
    assert all(row["language"] <= 100 / MEANINGS + 1e-6 for row in rows[:4])  # one, since all are equal
    assert rows[4]["meaning"] == pytest.approx(89.44, abs=0.01)
    assert rows[4]["language"] is None  # all cosines are 1
    scores = leakage_scores(rows)
    assert scores["meaning eng->xx"] == 100.0 and scores["language xx->eng"] < 9
    assert scores["meaning spearman"] == rows[4]["meaning"] and "language spearman" not in scores


def test_groups_of_languages() -> None:
    rows = [
        {"data": code, "measure": "eng->xx", "pairs": 1, "vectors": 1.0, "meaning": float(n), "language": 0.0}
        for n, code in enumerate([*GROUPS["14"], "xyz"])
    ]
    scores = leakage_scores(rows)
    assert scores["meaning eng->xx"] == 7.0 and scores["meaning eng->xx 14"] == 6.5
    assert "meaning eng->xx 36" not in scores
    assert leakage_scores(rows[:14])["meaning eng->xx 14"] == 6.5  # `--langs 14`, with its published numbers


def test_only_the_ten_sets_are_called_sts17() -> None:
    names = ["STS.ar-ar", "STS.en-ar", "STS.en-de", "STS.en-en", "STS.en-tr"]
    names += ["STS.es-en", "STS.es-es", "STS.fr-en", "STS.it-en", "STS.nl-en"]
    rows = [
        {"data": name, "measure": "spearman", "pairs": 250, "vectors": 0.0, "meaning": 50.0, "language": None}
        for name in names
    ]
    assert leakage_scores(rows[:9]) == {"meaning spearman": 50.0}
    for row in rows:
        row["language"] = 7.0
    assert leakage_scores(rows) == {"meaning STS17": 50.0, "language STS17": 7.0}


def test_the_plane_holds_what_differs_most() -> None:
    random = np.random.default_rng(0)
    far = np.array([3.0, 4.0, 0, 0, 0, 0])
    clouds = [sign * far + random.normal(size=(40, 6)) * 0.01 for sign in (-1, 1)]
    left, right = plane(clouds)
    assert left.shape == right.shape == (40, 2)
    gap = right.mean(axis=0) - left.mean(axis=0)
    assert abs(gap[0]) == pytest.approx(2.0, abs=0.01)  # unit vectors, opposite ones
    assert abs(gap[1]) < 0.01


def test_the_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    random = np.random.default_rng(0)
    clouds = {key: random.normal(size=(20, 2)) for key in OF_CLOUDS}
    for panels in (1, 4):
        path = tmp_path / f"{panels}.png"
        draw_clouds(path, {f"l{n}": clouds for n in range(panels)}, "title")
        assert path.read_bytes()[:4] == b"\x89PNG"


def test_published_numbers_are_the_papers() -> None:
    rows = {row.encoder: row.scores for row in published_rows("leakage")}
    assert rows["LaBSE, MEAT"]["language eng->xx 14"] == 87.35
    assert rows["LaBSE, MEAT+ORACLE"]["language eng->xx 14"] == 8.48
    assert rows["LaBSE, DREAM+ORACLE"]["meaning STS17"] == 74.13
    switched = {row.encoder: row.scores for row in published_rows("leakage-codeswitch")}
    assert published_as(["deu"], switched=False) == "leakage"
    assert published_as(["deu"], switched=True) is None  # the paper's mean is of eight languages
    eight = ["arb", "deu", "spa", "fra", "ita", "nld", "por", "ron"]
    assert published_as(eight, switched=True) == "leakage-codeswitch"
    assert switched["LaBSE, MEAT+ORACLE"] == {"meaning xx->eng": 96.16, "language xx->eng": 7.42}
