"""Labels are found among the pairs that were mined."""

from __future__ import annotations

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
