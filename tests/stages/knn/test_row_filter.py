from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from mexma_cli.errors import MexmaError
from mexma_cli.stages.knn import row_filter as usable
from mexma_cli.stages.knn.row_filter import filter_in_documents, filter_rows
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


@pytest.mark.parametrize("buffer", [1 << 20, 400])
def test_in_documents_the_last_of_equal_lines_is_kept_in_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, buffer: int
) -> None:
    monkeypatch.setattr(spool, "BUFFER", buffer)
    monkeypatch.setattr(usable, "_LINES", 7)
    rng = np.random.default_rng(2)
    lines = [["", *"abcdefgh"][i] for i in rng.integers(0, 9, 150)]
    documents = rng.integers(0, 5, 150)
    vectors = np.ones((150, 3), np.float32)
    vectors[[row for row, line in enumerate(lines) if line == "h"]] = 0
    store = make_store(tmp_path / "s.emb", lines, vectors)
    keep, _ = filter_rows(store)
    found = filter_in_documents(store, documents, keep)
    named = list(zip(lines, documents.tolist(), strict=True))
    last = {name: row for row, name in enumerate(named)}
    assert np.flatnonzero(found.keep).tolist() == sorted(
        row for (line, _), row in last.items() if line not in ("", "h")
    )
    last_of_all = {line: row for row, line in enumerate(lines)}
    filled = [row for row, line in enumerate(lines) if line]
    assert found.twin[filled].tolist() == [last_of_all[lines[row]] for row in filled]
    assert found.counts.kept == found.keep.sum() and found.counts.empty == lines.count("")
    assert found.counts.duplicates == len(filled) - len({name for name in named if name[0]})


def test_a_store_without_sentences_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MexmaError, match="vectors without their sentences"):
        filter_rows(make_store(tmp_path / "s.emb", None, np.ones((2, 3), np.float32)))
