"""Which pairs are kept: as if all hashes were sorted at once, however little fits into memory."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mexma_cli.settings.training import Data
from mexma_cli.stages.prepare import selection
from mexma_cli.stages.prepare.corpora import Bitext, find_bitexts
from mexma_cli.stages.prepare.selection import CAP_SEED, select
from mexma_cli.store import spool
from mexma_cli.text.duplicates import pair_hash
from mexma_cli.text.rules import PairRules


def bitext(folder: Path, rows: Sequence[tuple[str, ...]], drop_duplicates: bool = True) -> Bitext:
    (folder / "a.tsv").write_text("\n".join("\t".join(row) for row in rows))
    corpora = [{"name": "a", "format": "tsv", "path": "a.tsv", "languages": ["fra"]}]
    data = {"root": str(folder), "store": "s", "corpora": corpora, "drop_duplicates": drop_duplicates}
    return find_bitexts(Data.model_validate(data))[0][0]


def expected(rows: list[tuple[str, str]], limit: int | None, drop_duplicates: bool) -> list[int]:
    """Rows that are kept, by plain Python."""
    first: dict[tuple[str, str], int] = {}
    for number, row in enumerate(rows):
        first.setdefault(row, number)
    numbers = list(first.values()) if drop_duplicates else list(range(len(rows)))
    return sorted(sorted(numbers, key=lambda number: (pair_hash(*rows[number], CAP_SEED), number))[:limit])


@pytest.mark.parametrize("buffer", [1 << 10, 1 << 30], ids=["on disk", "in memory"])
@pytest.mark.parametrize("limit", [None, 0, 1, 400, 5000])
@pytest.mark.parametrize("drop_duplicates", [True, False])
def test_the_smallest_hashes_and_the_first_of_equals(
    buffer: int, limit: int | None, drop_duplicates: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spool, "BUFFER", buffer)
    monkeypatch.setattr(selection, "_BATCH", 64)
    random.seed(3)
    rows = [(f"phrase {random.randrange(800)}", "a sentence") for _ in range(1500)]
    work = tmp_path / "work"
    made = bitext(tmp_path, rows, drop_duplicates)
    found = select(made, PairRules({"missing": 0}), limit, work)
    wanted = expected(rows, limit, drop_duplicates)
    assert np.flatnonzero(np.fromfile(found.path, dtype=np.uint8) == 0).tolist() == wanted
    assert list(found.pairs(made)) == [(*rows[number], "") for number in wanted]
    assert (found.read, found.kept) == (1500, len(wanted))
    assert found.kept + sum(found.dropped.values()) == 1500
    assert list(work.iterdir()) == [found.path], "only the result is left"


def test_stopping_leaves_no_parts_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "BUFFER", 1 << 10)
    monkeypatch.setattr(selection, "_BATCH", 64)
    calls = []

    def stopped() -> None:
        calls.append(1)
        if len(calls) > 10:
            raise InterruptedError

    monkeypatch.setattr(selection, "end_if_stopped", stopped)
    rows = [(f"phrase {number}", "a sentence") for number in range(1500)]
    with pytest.raises(InterruptedError):
        select(bitext(tmp_path, rows), PairRules({"missing": 0}), None, tmp_path / "work")
    assert [path.name for path in (tmp_path / "work").iterdir()] == ["a.fra.codes"]


def test_values_of_columns_that_nothing_reads_are_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = [("une phrase", "a sentence", "web", "2021"), ("deux", "two", "", "2022"), ("trois", "three")]
    made = bitext(tmp_path, rows)
    assert select(made, PairRules({"missing": 0}), None, tmp_path / "work").kept == 3
    assert caplog.messages == [f"{tmp_path / 'a.tsv'}: left out: values of other columns (3)"]
    caplog.clear()
    corpus = made.corpus.model_copy(update={"negatives": "columns"})
    made = replace(made, corpus=corpus, data=made.data.model_copy(update={"negatives": 2}))
    select(made, PairRules({"missing": 0}), None, tmp_path / "work")
    assert not caplog.messages
