"""Mining sets against scikit-learn, plain NumPy and LASER's bucc.py."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from mexma_cli.errors import MexmaError
from mexma_cli.evaluation.bucc import MiningSet, cosine_f1, evaluate, ranked, read_sets, weighted_f1
from mexma_cli.evaluation.tatoeba import precision_at_1
from mexma_cli.mining.threshold import best_threshold
from tests.evaluation.given import Known, put
from tests.reference import laser, laser_printed, laser_text


def test_weighted_f1_is_scikit_learns() -> None:
    metrics = pytest.importorskip("sklearn.metrics", reason="scikit-learn is not installed (extra `eval`)")
    rng = np.random.default_rng(0)
    for size, classes in ((1, 1), (40, 12), (500, 400), (300, 30)):
        truth, found = rng.integers(0, classes, (2, size))
        expected = metrics.f1_score(truth, found, average="weighted", zero_division=0)
        assert weighted_f1(truth, found) == pytest.approx(expected, abs=1e-12)


def test_cosine_f1_against_plain_numpy() -> None:
    metrics = pytest.importorskip("sklearn.metrics", reason="scikit-learn is not installed (extra `eval`)")
    rng = np.random.default_rng(1)
    y = rng.standard_normal((90, 8)).astype(np.float32)
    x = (3 * y[rng.permutation(90)[:50]] + 1.5 * rng.standard_normal((50, 8))).astype(np.float32)
    gold = np.stack([rng.permutation(50)[:30], rng.integers(0, 90, 30)], axis=1)
    unit = y / np.linalg.norm(y, axis=1, keepdims=True)
    nearest = (x[gold[:, 0]] @ unit.T).argmax(axis=1)
    expected = metrics.f1_score(gold[:, 1], nearest, average="weighted", zero_division=0)
    assert cosine_f1(x, y, gold) == pytest.approx(expected, abs=1e-12)


@pytest.mark.slow
def test_mteb_finds_the_same() -> None:
    """BUCC's cosine F1 and Tatoeba's precision at 1 are what mteb's own search and metrics give."""
    pytest.importorskip("mteb", reason="needs the extra mteb")
    from mteb._evaluators.text.bitext_mining_evaluator import BitextMiningEvaluator
    from mteb.abstasks.text.bitext_mining import AbsTaskBitextMining
    from mteb.similarity_functions import cos_sim

    def by_mteb(queries: np.ndarray, corpus: np.ndarray, gold: np.ndarray) -> dict[str, float]:
        model = SimpleNamespace(similarity=cos_sim)
        evaluator = BitextMiningEvaluator.__new__(BitextMiningEvaluator)
        near = evaluator._similarity_search(queries, corpus, model)
        return AbsTaskBitextMining._compute_metrics(None, near, gold.tolist())

    rng = np.random.default_rng(2)
    y = rng.standard_normal((300, 8)).astype(np.float32)
    x = (2 * y[:150] + 1.2 * rng.standard_normal((150, 8))).astype(np.float32)
    gold = np.stack([np.arange(150), np.arange(150) - np.arange(150) % 3], axis=1)  # targets several times
    found = by_mteb(x, y, gold)
    assert 0.05 < cosine_f1(x, y, gold) == pytest.approx(found["f1"], abs=1e-12)
    own = np.stack([np.arange(150), np.arange(150)], axis=1)
    both = (by_mteb(x, y[:150], own), by_mteb(y[:150], x, own))
    assert precision_at_1(x, y[:150]) == pytest.approx([100 * one["accuracy"] for one in both])
    assert 50 < 100 * both[0]["accuracy"] < 100


def test_thresholds_are_lasers() -> None:
    texts = [laser_text("src"), laser_text("tgt")]
    data = MiningSet("a-b", "", texts[0], texts[0], texts[1], texts[1], laser()["gold"].astype(int), False)
    for (margin, k), printed in laser_printed("bucc").items():
        threshold, *percent = map(float, printed)
        scored = ranked(data, laser()["src"], laser()["tgt"], margin, k)
        best = best_threshold(scored.scores, scored.is_gold, scored.gold)
        expected = pytest.approx([threshold, *(number / 100 for number in percent)], abs=6e-5)
        assert [best.threshold, best.precision, best.recall, best.f1] == expected, (margin, k)


def test_sentences_with_several_ids_take_no_part() -> None:
    vectors = np.eye(4, dtype=np.float32) + 0.1
    sources, targets = ["a", "b", "b", "c"], ["A", "B", "X", "C"]
    names = [list("1234"), list("5678")]
    gold = np.array([[0, 0], [1, 1], [2, 1], [3, 3]])
    data = MiningSet("a-b", "", names[0], sources, names[1], targets, gold, False)
    found = ranked(data, vectors, vectors)
    assert (len(found.scores), int(found.is_gold.sum()), found.gold) == (2, 2, 4)


def test_any_threshold_is_also_one_below_0() -> None:
    """With k 1 the distance margin of mutual neighbours is 0, and that of all others negative."""
    vectors = np.eye(4, dtype=np.float32) + 0.1
    texts, rows = list("abcd"), np.arange(4)
    data = MiningSet("a-b", "", texts, texts, texts, texts, np.stack([rows, rows], axis=1), False)
    found = ranked(data, vectors, vectors, "distance", 1)
    assert best_threshold(found.scores, found.is_gold, found.gold).f1 == 1.0


def put_set(folder: Path, stem: str, gold: list[tuple[str, str]] | None, tail: str = "") -> None:
    """Twelve sources and targets that letters connect, as BUCC's files or as others."""
    source, target = stem.partition(".")[0].split("-")
    words = ["rain", "snow", "wind", "cloud", "storm", "sun", "hail", "frost", "fog", "gale", "ice", "mist"]
    lines = {
        source: [f"{source}-{row}\tle {word} {row}" for row, word in enumerate(words)],
        target: [f"{target}-{row}\tthe {word} {row}" for row, word in enumerate(words)],
    }
    if gold is not None:
        lines["gold"] = ["\t".join(pair) for pair in gold]
    put(
        folder,
        {f"{stem}.{side}{tail}": "".join(f"{line}\n" for line in found) for side, found in lines.items()},
    )


def letters(texts: list[str]) -> np.ndarray:
    """How often each letter pair occurs: a real, if crude, encoder of strings."""
    vectors = np.zeros((len(texts), 512), dtype=np.float32)
    for row, text in enumerate(texts):
        for pair in pairwise(text):
            vectors[row, (31 * ord(pair[0]) + ord(pair[1])) % 512] += 1
    return vectors


PAIRS = [(f"fr-{row}", f"en-{row}") for row in range(8)]


def test_threshold_of_training_is_applied_to_test(tmp_path: Path) -> None:
    folder = tmp_path / "bucc2018" / "fr-en"
    put_set(folder, "fr-en.sample", PAIRS)
    put_set(folder, "fr-en.training", PAIRS)
    put_set(folder, "fr-en.test", PAIRS[:4])
    sets = read_sets([tmp_path / "bucc2018"])
    assert [(one.pair, one.split) for one in sets] == [
        ("fra-eng", one) for one in ("sample", "test", "training")
    ]
    result = evaluate(sets, [tmp_path], Known(letters))
    rows = {row["split"]: row for row in result.rows}
    assert rows["training"]["test f1"] is None and rows["training"]["tuned on"] is None
    assert rows["test"]["tuned on"] == "training"
    assert rows["test"]["test f1"] <= rows["test"]["tuned f1"]
    test = next(one for one in sets if one.split == "test")
    scored = ranked(test, letters(test.sources), letters(test.targets))
    kept = scored.scores > rows["training"]["threshold"]
    expected = 100 * 2 * int((kept & scored.is_gold).sum()) / (int(kept.sum()) + 4)
    assert 0 < rows["test"]["test f1"] == pytest.approx(expected)
    assert result.benchmark == "bucc"
    assert result.scores["tuned f1"] == rows["training"]["tuned f1"]
    assert rows["sample"]["test f1"] is None  # the threshold is for the test split
    assert result.scores["test f1"] == pytest.approx(expected)
    both = [one for one in sets if one.split != "sample"]
    result = evaluate(both, [tmp_path], Known(letters))
    assert result.scores["test f1"] == pytest.approx(expected) == result.rows[0]["test f1"]


def test_without_public_gold_sample_gives_the_threshold(tmp_path: Path) -> None:
    for split, gold in (("sample", PAIRS), ("training", PAIRS), ("test", None)):
        put_set(tmp_path, f"fr-en.{split}", gold)
    result = evaluate(read_sets([tmp_path]), [tmp_path], Known(letters))
    rows = {row["split"]: row for row in result.rows}
    assert rows.keys() == {"sample", "training"} and rows["training"]["tuned on"] == "sample"


def test_one_split_is_halved(tmp_path: Path) -> None:
    put_set(tmp_path, "fr-en", PAIRS, ".tsv.gz")
    result = evaluate(read_sets([tmp_path]), [tmp_path], Known(letters))
    (row,) = result.rows
    assert row["tuned on"] == "half of it" and row["held-out f1"] is not None
    assert row["split"] == "-" and row["gold"] == 8
    assert result.benchmark is None


def test_a_pair_under_two_spellings_is_there_twice(tmp_path: Path) -> None:
    put_set(tmp_path / "a", "fr-en.training", PAIRS)
    put_set(tmp_path / "b", "fra-eng.training", [("fra-0", "eng-0")])
    with pytest.raises(MexmaError, match=r"b and .*a both have fra-eng training"):
        read_sets([tmp_path])
