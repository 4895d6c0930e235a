"""What a killed search leaves, and what the next one makes of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mexma_cli import files
from mexma_cli.errors import MexmaError
from mexma_cli.store import journal
from mexma_cli.store.journal import FileJournal
from tests.stores import flip

SEARCH = files.Unfinished(by="knn", of={"source": "a" * 32, "target": "def", "k": 3})


def lists(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.integers(0, 99, (10, 3)), rng.integers(0, 99, (7, 3))


def empty() -> tuple[np.ndarray, np.ndarray]:
    return np.full((10, 3), -1), np.full((7, 3), -1)


def test_gives_back_what_was_entered_last(tmp_path: Path) -> None:
    forward, backward = lists(0)
    first = FileJournal(tmp_path, SEARCH)
    assert not first.begun and first.load(*empty()) is None
    first.save((4, 0, 5), *lists(1))  # rows 0 to 4 in hand
    first.save((4, 4, 0), forward, backward)
    first.save((4, 4, 2), forward, backward)
    again = FileJournal(tmp_path, SEARCH)
    got = empty()
    assert again.begun and again.load(*got) == (4, 4, 2)
    np.testing.assert_array_equal(got[0][:8], forward[:8])
    assert (got[0][8:] == -1).all()  # not reached yet
    np.testing.assert_array_equal(got[1], backward)
    again.save((4, 8, 0), forward, backward)
    got = empty()
    assert FileJournal(tmp_path, SEARCH).load(*got) == (4, 8, 0)
    np.testing.assert_array_equal(got[0], forward)


@pytest.mark.parametrize("cut", ["found.keys", "lists", "progress.json"])
def test_an_entry_that_was_cut_short_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cut: str
) -> None:
    """Killed at any moment of an entry: the one before is still whole."""
    forward, backward = lists(0)
    kept = FileJournal(tmp_path, SEARCH)
    kept.save((2, 2, 3), forward, backward)
    stopped = {"found.keys": 1, "lists": 2, "progress.json": 3}[cut]
    calls = []

    def die(*arguments: object) -> None:
        calls.append(arguments)
        if len(calls) == stopped:
            raise KeyboardInterrupt

    monkeypatch.setattr(files, "fsync_file", die)
    if cut == "progress.json":
        monkeypatch.setattr(files, "write_json_atomic", lambda path, content: die())
    with pytest.raises(KeyboardInterrupt):
        kept.save((2, 6, 1), *lists(2))
    monkeypatch.undo()
    next_run = FileJournal(tmp_path, SEARCH)
    got = empty()
    assert next_run.load(*got) == (2, 2, 3)
    np.testing.assert_array_equal(got[0][:4], forward[:4])
    np.testing.assert_array_equal(got[1], backward)
    next_run.save((2, 6, 1), forward, backward)
    got = empty()
    assert FileJournal(tmp_path, SEARCH).load(*got) == (2, 6, 1)
    np.testing.assert_array_equal(got[0][:8], forward[:8])


def test_refuses_another_search_and_damage(tmp_path: Path) -> None:
    FileJournal(tmp_path, SEARCH).save((4, 4, 0), *lists(0))
    now = {"source": "b" * 32, "target": "def", "k": 4}
    for by, what in (
        ("mine", "command: knn there, mine now"),
        ("knn", "the source is another one, or has changed; k: 3 there, 4 now"),
    ):
        with pytest.raises(MexmaError, match=f"another run: {what}\n") as caught:
            FileJournal(tmp_path, files.Unfinished(by=by, of=now))
        assert f"remove {tmp_path} to start anew" in (caught.value.hint or "")
    path = tmp_path / "kept" / "lists-a.keys"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(MexmaError, match=r"lists-a.keys is damaged: 263 bytes instead of 264"):
        FileJournal(tmp_path, SEARCH).load(*empty())


def test_is_due_after_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(journal.time, "monotonic", lambda: now[0])
    kept = FileJournal(tmp_path, SEARCH)
    assert not kept.due()
    now[0] += journal.SECONDS
    assert kept.due()
    kept.save((4, 4, 0), *lists(0))
    assert not kept.due()


@pytest.mark.parametrize("name", ["found.keys", "lists-b.keys", "progress.json"])
def test_a_flipped_bit_is_found(name: str, tmp_path: Path) -> None:
    kept = FileJournal(tmp_path, SEARCH)
    for place in ((4, 0, 5), (4, 4, 0)):
        kept.save(place, *lists(0))
    kept.note(memory=7)
    text = (tmp_path / "progress.json").read_text()
    if name == "progress.json":
        (tmp_path / name).write_text(text.replace('"memory": 7', '"memory": 3'))
    else:
        flip(tmp_path / "kept" / name, 9)
    with pytest.raises(MexmaError, match=f"damaged: .*{'its' if name.endswith('json') else name}"):
        FileJournal(tmp_path, SEARCH).load(*empty())
