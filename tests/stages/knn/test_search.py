"""The search as stages do it: killed and resumed, in a memory budget, with an index."""

from __future__ import annotations

import logging
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from mexma_cli.errors import MexmaError
from mexma_cli.files import Unfinished
from mexma_cli.knn import effort, exact_search
from mexma_cli.knn.cosines import EMPTY
from mexma_cli.settings.stages import MineSettings, SearchSettings
from mexma_cli.stages.knn.row_filter import KeptRows
from mexma_cli.stages.knn.search import (
    check_memory,
    journal_beside,
    least_bytes,
    resident,
    search_stores,
)
from mexma_cli.store.embeddings import EmbeddingStore, StorePair
from mexma_cli.store.journal import FileJournal
from mexma_cli.text.writing import only_process
from tests.command import fails, ok, run
from tests.processes import MEXMA, Program
from tests.stores import make_store, mine

EXACT = SearchSettings()


def make(path: Path, rows: int, seed: int, dim: int = 12) -> EmbeddingStore:
    rng = np.random.default_rng(seed)
    topics = np.random.default_rng(0).standard_normal((9, dim))
    vectors = topics[rng.integers(0, 9, rows)] + 0.5 * rng.standard_normal((rows, dim))
    return make_store(path, [f"{path.stem} {row}" for row in range(rows)], vectors.astype(np.float32))


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> StorePair:
    folder = tmp_path_factory.mktemp("stores")
    return make(folder / "a.emb", 700, 1), make(folder / "b.emb", 600, 2)


KILLED = """
import os, signal, sys
from mexma_cli.main import cli
from mexma_cli.knn import exact_search
from mexma_cli.store import journal

journal.SECONDS = journal._SHARE = 0
exact_search.X_TILE = exact_search.Y_TILE = 100
exact_search.X_ROWS = 200
save, entries = journal.FileJournal.save, []

def deadly(self, *arguments):
    save(self, *arguments)
    entries.append(arguments[0])
    if len(entries) == 9:
        os.kill(os.getpid(), signal.SIGKILL)

journal.FileJournal.save = deadly
cli(sys.argv[1:])
"""


def test_a_killed_run_goes_on_and_gives_the_same_bytes(
    stores: StorePair, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    paths = [store.path for store in stores]
    wanted, out = tmp_path / "wanted.tsv", tmp_path / "out.tsv"
    command = ["mine", *paths, "-o", out]
    assert Program(KILLED, *command).wait() == -signal.SIGKILL
    assert not out.exists() and (tmp_path / "out.tsv.partial" / "progress.json").is_file()
    fails(run(*command, "-k", "5"), 1, "beginning of another run: k: 4 there, 5 now")
    assert "going on with the run that was interrupted" in ok(run(*command)).stderr
    assert not (tmp_path / "out.tsv.partial").exists()
    ok(run("mine", *paths, "-o", wanted))
    assert out.read_bytes() == wanted.read_bytes() and out.stat().st_size > 1000


KILLED_WITH_AN_INDEX = """
import os, signal, sys
from mexma_cli.main import cli
from mexma_cli.knn import approximate as ann, faiss_index
from mexma_cli.store import journal

ann.CHUNK = 1 << 15
faiss_index.BLOCK = 100
journal.FileJournal.due = lambda self: True
note, entries = journal.FileJournal.note, []

def deadly(self, *arguments, **facts):
    note(self, *arguments, **facts)
    entries.append(1)
    if len(entries) == int(sys.argv[1]):
        os.kill(os.getpid(), signal.SIGKILL)

journal.FileJournal.note = deadly
cli(sys.argv[2:])
"""


@pytest.mark.parametrize(
    ("entries", "left"),
    [
        pytest.param(1, {"index-y-trained.faiss"}, marks=pytest.mark.slow),
        pytest.param(
            7,
            {"index-y-trained.faiss", "index-x-trained.faiss", "index-y-0.faiss"},
            marks=pytest.mark.slow,
        ),
        (28, {"index-y-0.faiss", "index-x-0.faiss", "lists-a.keys"}),
    ],
)
def test_a_killed_run_with_an_index_goes_on_and_gives_the_same_bytes(
    stores: StorePair, tmp_path: Path, entries: int, left: set[str]
) -> None:
    """Killed when one index is trained, while the first is filled, and while both are asked."""
    paths = [store.path for store in stores]
    out, part = tmp_path / "out.knn", tmp_path / "out.knn.partial"
    command = ["knn", *paths, "-k", "4", "--index", "IVF8,PQ6x4fs", "--recall", "0.6", "-o", out]
    assert Program(KILLED_WITH_AN_INDEX, str(entries), *command).wait() == -signal.SIGKILL
    assert left <= {file.name for file in (part / "kept").iterdir()} and not out.exists()
    fails(run(*command, "--recall", "0.9"), 1, "beginning of another run: recall: 0.6 there, 0.9 now")
    assert "going on with the run that was interrupted" in ok(run(*command)).stderr
    wanted = tmp_path / "wanted.knn"
    assert not part.exists() and ok(run(*command[:-1], wanted))
    for name in ("forward-ids", "forward-scores", "backward-ids", "backward-scores"):
        assert (out / f"{name}.npy").read_bytes() == (wanted / f"{name}.npy").read_bytes()


@contextmanager
def held(output: Path, stores: StorePair) -> Iterator[FileJournal | None]:
    with only_process([output]), journal_beside("mine", output, stores, 4, EXACT) as journal:
        yield journal


def test_an_error_keeps_what_was_found_and_nothing_else(stores: StorePair, tmp_path: Path) -> None:
    output = tmp_path / "o.tsv"
    with pytest.raises(ZeroDivisionError), held(output, stores):
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []
    lists = np.zeros((700, 4), np.int64), np.zeros((600, 4), np.int64)
    with pytest.raises(ZeroDivisionError), held(output, stores) as journal:
        assert journal is not None
        journal.save((100, 0, 200), *lists)
        raise ZeroDivisionError
    with held(output, stores) as journal:
        assert journal is not None and journal.load(*lists) == (100, 0, 200)
    assert list(tmp_path.iterdir()) == []
    with journal_beside("mine", None, stores, 4, EXACT) as journal:
        assert journal is None
    with journal_beside("mine", Path("/dev/null"), stores, 4, EXACT) as journal:
        assert journal is None


def test_a_budget_that_is_too_small_is_refused(stores: StorePair) -> None:
    with pytest.raises(MexmaError, match=r"--memory 1 kB is too little for 1,300 lines"):
        mine(*stores, MineSettings(memory=1000))
    enough = MineSettings(memory=resident() + 200_000_000)
    assert len(mine(*stores, enough).candidates) > 100
    just = MineSettings(memory=resident() + 2_000_000)
    with pytest.raises(MexmaError, match=r"finding their neighbours [0-9.]+ MB"):
        mine(*stores, just)


@pytest.mark.parametrize("how", [("--index", "exact"), ("--index", "IVF8,Flat"), ("--score", "probability")])
def test_a_budget_that_is_too_small_is_told_one_that_is_enough(
    stores: StorePair, tmp_path: Path, how: tuple[str, str]
) -> None:
    """As a user does it: the number in the hint, in a new process."""

    def mined(memory: str) -> tuple[int, str]:
        paths = [store.path for store in stores]
        options = ["-o", tmp_path / "out.tsv", *how, "--memory", memory]
        program = Program(MEXMA, "mine", *paths, *options)
        return program.wait(), program.communicate()[1]

    code, said = mined("1M")
    assert code == 1 and "--memory 1.0 MB is too little" in said
    enough = re.search(r"--memory ([0-9.]+[KMG]) is enough", said)
    assert enough is not None, said
    assert mined(enough[1])[0] == 0


def test_a_container_that_is_too_small_is_warned_of(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("mexma_cli.stages.knn.search.memory_limit", lambda: 20_000_000_000)
    check_memory(SearchSettings(), 3_000, 3_000, 320, 4)
    check_memory(SearchSettings(), 80_000_000, 80_000_000, 320, 4)  # whose pairs are sorted on disk
    assert not caplog.text
    check_memory(SearchSettings(), 400_000_000, 400_000_000, 320, 4)
    said = "this container may hold 20.0 GB: --memory 18G stays within"
    assert said in caplog.text
    for memory, told in ((21 << 30, True), (4 << 30, False)):
        caplog.clear()
        check_memory(SearchSettings(memory=memory), 1000, 1000, 8, 4)
        assert (said in caplog.text) == told


def test_going_on_with_too_little_memory_is_told_what_it_was_begun_with(
    stores: StorePair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exact_search, "X_TILE", 64)  # or these stores are searched in one go with any limit
    rows = KeptRows.of(stores)
    search_stores(
        stores, 4, rows, SearchSettings(memory=1 << 33)
    )  # loads what a search needs, which takes memory
    journal = FileJournal(tmp_path, Unfinished(by="knn", of={}))
    journal.save((700, 0, 0), np.full((700, 4), EMPTY), np.full((600, 4), EMPTY))
    less = resident() + least_bytes(700, 600, 12, 4, "exact") + 30_000
    journal = FileJournal(tmp_path, Unfinished(by="knn", of={}))
    with pytest.raises(MexmaError, match="too little here: this search was begun with more memory") as caught:
        search_stores(stores, 4, rows, SearchSettings(memory=less), journal)
    assert re.match(r"--memory [0-9.]+[MG] is enough", str(caught.value.hint))


def test_an_index_says_what_it_found(stores: StorePair, caplog: pytest.LogCaptureFixture) -> None:
    rows = KeptRows.of(stores)
    with caplog.at_level(logging.INFO):
        found = search_stores(stores, 4, rows, SearchSettings(index="IVF8,Flat", recall=0.9))
        search_stores(stores, 4, rows, SearchSettings(index="Flat"))
    assert found.index == "IVF8,Flat" and found.recall is not None and 0.5 < found.recall <= 1
    assert "source: IVF8,Flat nprobe=" in caplog.text and "source: Flat: 100.0 %" in caplog.text
    exact = search_stores(stores, 4, rows, SearchSettings())
    auto = search_stores(stores, 4, rows, SearchSettings(index="auto"))
    assert (auto.index, auto.recall) == (exact.index, exact.recall) == ("exact", None)
    assert np.array_equal(auto.neighbours.forward_ids, exact.neighbours.forward_ids)
    same = found.neighbours.forward_ids[:, :, None] == exact.neighbours.forward_ids[:, None]
    assert abs(float(same.any(axis=2).mean()) - found.recall) < 0.1


@pytest.mark.parametrize("command", ["mine", "knn"])
def test_an_index_that_finds_too_little_is_refused_and_leaves_nothing(
    command: str, stores: StorePair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # or it is asked for nearly all of these few rows
    monkeypatch.setattr(effort, "fewest_hits", lambda k: k)
    output = tmp_path / "out"
    words = [command, *(store.path for store in stores), "-k", "4", "-o", output, "--index", "PQ1x4,RFlat"]
    said = fails(run(*words), 1, "the index PQ1x4,RFlat finds ", "95.0 % were asked for").stderr
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("out")] == []
    enough = re.search(r"--recall ([0-9.]+), .* takes it as it is", said)
    assert enough is not None and float(enough[1]) < 0.9
    ok(run(*words, "--recall", enough[1]))
