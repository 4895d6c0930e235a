from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from mexma_cli.errors import MexmaError
from mexma_cli.stages.knn import row_filter as usable
from mexma_cli.stages.knn.row_filter import filter_rows, twins
from mexma_cli.store import spool
from mexma_cli.store.arrays import unverified
from tests.stores import make_store


@pytest.mark.parametrize("buffer", [1 << 20, 400])
def test_the_last_of_equal_lines_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, buffer: int
) -> None:
    """In one piece, and sorted into many by way of temporary files."""
    monkeypatch.setattr(spool, "BUFFER", buffer)
    monkeypatch.setattr(usable, "_LINES", 7)
    rng = np.random.default_rng(1)
    lines = [["", " ", "\u3000", *"abcdefghijklmnopqrstuvwxyz"][i] for i in rng.integers(0, 29, 200)]
    lines += [f"line {i}" for i in range(50)]
    vectors = rng.standard_normal((250, 3)).astype(np.float32)
    vectors[[3, 210, 211]] = 0
    last = {line: row for row, line in enumerate(lines)}
    blank = [row for row, line in enumerate(lines) if not line.strip()]
    wanted = sorted(set(last.values()) - set(blank) - {3, 210, 211})
    store = make_store(tmp_path / "s.emb", lines, vectors)
    shard = np.load(store.path / "vectors-00000.npy", mmap_mode="r+")
    shard[3] = [0, np.nan, np.inf]  # a store has none; a damaged one may
    shard.flush()
    with unverified():
        keep, counts = filter_rows(store)
    assert np.flatnonzero(keep).tolist() == wanted
    repeated = sum(n - 1 for line, n in Counter(lines).items() if line.strip())
    assert (counts.rows, counts.duplicates, counts.empty) == (250, repeated, len(blank))
    assert counts.unusable == 250 - repeated - len(blank) - len(wanted) >= 2
    assert str(counts).startswith(f"250 lines ({repeated} duplicates, {len(blank)} empty, ")


def test_the_twin_of_a_row_is_the_last_with_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "BUFFER", 400)
    monkeypatch.setattr(usable, "_LINES", 7)
    lines = [["", *"abcdefgh"][i] for i in np.random.default_rng(2).integers(0, 9, 150)]
    last = {line: row for row, line in enumerate(lines)} | {"": -1}
    store = make_store(tmp_path / "s.emb", lines, np.ones((150, 3), np.float32))
    assert twins(store).tolist() == [last[line] for line in lines]


def test_a_store_without_sentences_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MexmaError, match="vectors without their sentences"):
        filter_rows(make_store(tmp_path / "s.emb", None, np.ones((2, 3), np.float32)))
