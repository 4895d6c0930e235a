"""Labels are found among the pairs that were mined."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from mexma_cli.classifier.precision import PairPrecision
from mexma_cli.mining.candidates import Candidates
from mexma_cli.stages.tune.labels import Labels
from tests.command import write
from tests.stores import make_store


@pytest.mark.parametrize("lines", ["0\t0", "1\t1", "1\t3", "3\t1"])
def test_a_label_is_of_the_copies_that_were_mined(lines: str, tmp_path: Path) -> None:
    vectors = np.eye(3, dtype=np.float32)
    stores = [make_store(tmp_path / name, ["a", "b", "a"], vectors) for name in ("spa.emb", "eng.emb")]
    ones = np.ones(2, np.float32)
    pairs = Candidates(ones, np.array([2, 1]), np.array([0, 1]), ones)
    labels = write(tmp_path / "labels.tsv", f"y\t{lines}\ta\ta", "n\t0\t0\tb\ta")
    found = Labels(labels, pairs, *stores)
    assert found.counts == {"y": 1, "n": 0, "s": 0}, "what is no pair does not count"
    assert found.drawn(PairPrecision(ones, ones / 2), 2) == [1]


def test_copies_of_labelled_sentences_take_little_memory(tmp_path: Path) -> None:
    lines = ["Hello, my friends."] * 50_000
    store = make_store(tmp_path / "a.emb", lines, np.ones((len(lines), 2), np.float32))
    ones = np.ones(1, np.float32)
    pairs = Candidates(ones, np.array([49_999]), np.array([7]), ones)
    labels = write(tmp_path / "labels.tsv", f"y\t0\t0\t{lines[0]}\t{lines[0]}")
    Labels(labels, pairs, store, store)
    tracemalloc.start()
    found = Labels(labels, pairs, store, store)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.counts["y"] == 1 and most < 100 * len(lines)


@pytest.mark.parametrize(
    ("answers", "told"), [("nnnnnnnnnn", False), ("nnnnnyyyyy", True), ("yyyyynnnnn", False)]
)
def test_answers_that_contradict_the_probabilities_are_told_of(
    answers: str, told: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Only where some pairs are called right, and others wrong."""
    names = list("abcdefghij")
    store = make_store(tmp_path / "a.emb", names, np.eye(10, dtype=np.float32))
    scores = np.repeat(np.float32([0.999, 0.001]), 5)
    pairs = Candidates(scores, np.arange(10), np.arange(10), scores)
    rows = [f"{answer}\t0\t0\t{name}\t{name}" for answer, name in zip(answers, names, strict=True)]
    Labels(write(tmp_path / "labels.tsv", *rows), pairs, store, store).corrected(
        PairPrecision(scores, scores)
    )
    assert ("is y yes?" in caplog.text) == told
