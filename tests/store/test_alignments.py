from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mexma_cli.errors import MexmaError
from mexma_cli.files import Unfinished
from mexma_cli.store.journal import RECORD, AlignmentJournal

RUN = Unfinished(by="align", of={"a": 1})


def records(number: int, count: int) -> np.ndarray:
    found = np.zeros(count, RECORD)
    found["pair"], found["score"] = number, np.arange(count)
    return found


def test_what_was_entered_is_there_again_and_what_came_after_is_not(tmp_path: Path) -> None:
    first = AlignmentJournal(tmp_path, RUN)
    assert not first.begun and first.records().shape == (0,)
    first.add(records(0, 2))
    first.add(records(1, 0))
    first.enter()
    first.add(records(2, 3))
    first.records()  # which brings it to the file
    again = AlignmentJournal(tmp_path, RUN)
    assert again.begun and again.groups == 2
    np.testing.assert_array_equal(again.records(), records(0, 2))
    again.add(records(2, 1))
    assert again.records()["pair"].tolist() == [0, 0, 2]


def test_pairs_are_kept(tmp_path: Path) -> None:
    kept = AlignmentJournal(tmp_path, RUN)
    assert kept.pairs() is None
    kept.keep_pairs(np.array([[1, 2]], np.int32))
    assert kept.pairs().tolist() == [[1, 2]]  # type: ignore[union-attr]
    assert AlignmentJournal(tmp_path, RUN).pairs().tolist() == [[1, 2]]  # type: ignore[union-attr]


def test_other_runs_and_damage_are_refused(tmp_path: Path) -> None:
    first = AlignmentJournal(tmp_path, RUN)
    first.add(records(0, 2))
    first.keep_pairs(np.zeros((1, 2), np.int32))
    first.enter()
    with pytest.raises(MexmaError, match="beginning of another run: a: 1 there, 2 now"):
        AlignmentJournal(tmp_path, Unfinished(by="align", of={"a": 2}))
    (tmp_path / "kept" / "document-pairs.npy").write_bytes(b"x")
    with pytest.raises(MexmaError, match=r"document-pairs\.npy is damaged"):
        AlignmentJournal(tmp_path, RUN).pairs()
    content = bytearray((tmp_path / "kept" / "alignments.bin").read_bytes())
    content[5] ^= 1
    for damaged in (bytes(content), bytes(content[:-1])):
        (tmp_path / "kept" / "alignments.bin").write_bytes(damaged)
        with pytest.raises(MexmaError, match=r"alignments\.bin is damaged"):
            AlignmentJournal(tmp_path, RUN)
