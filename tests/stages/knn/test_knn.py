from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mexma_cli import files
from mexma_cli.errors import MexmaError
from mexma_cli.knn import exact_search
from mexma_cli.knn.exact import knn
from mexma_cli.mining.match import match
from mexma_cli.settings.stages import KnnSettings, MineSettings
from mexma_cli.stages.info import inspect
from mexma_cli.stages.knn.knn import find_neighbours, kept_already, read_neighbours
from mexma_cli.store import journal
from mexma_cli.store.embeddings import StorePair
from mexma_cli.store.neighbours import NeighbourStore
from tests.stores import make_store, mine


@pytest.fixture
def stores(tmp_path: Path) -> StorePair:
    """20 and 12 sentences; in the source one is empty, one comes twice, one has no direction."""
    numbers = np.random.default_rng(1)
    x, y = (numbers.standard_normal((rows, 8)).astype(np.float32) for rows in (20, 12))
    x[7] = 0
    sentences = [f"s{row}" for row in range(20)]
    sentences[3], sentences[5] = " ", sentences[11]
    return (
        make_store(tmp_path / "s.emb", sentences, x),
        make_store(tmp_path / "t.emb", [f"t{row}" for row in range(12)], y),
    )


def test_keeps_what_mine_would_find(stores: StorePair, tmp_path: Path) -> None:
    kept = find_neighbours(stores, tmp_path / "a.knn", KnnSettings(k=4), argv=("mexma", "knn"))
    keep = np.ones(20, dtype=bool)
    keep[[3, 5, 7]] = False
    wanted = knn(*stores, 4, keep_x=keep)
    for found, known in zip(kept.read(4), vars(wanted).values(), strict=True):
        assert np.array_equal(found, known)
    source = kept.manifest.source
    assert (source.rows, source.duplicates, source.empty, source.unusable) == (20, 1, 1, 1)
    assert (kept.manifest.k, kept.manifest.index, kept.manifest.recall) == (4, "exact", None)


@pytest.mark.parametrize("k", [1, 3, 4])
def test_fewer_neighbours_are_the_first_of_more(k: int, stores: StorePair, tmp_path: Path) -> None:
    find_neighbours(stores, tmp_path / "a.knn", KnnSettings(k=4))
    found = match(read_neighbours(tmp_path / "a.knn", *stores, k).neighbours, MineSettings())
    wanted = mine(*stores, MineSettings(k=k)).candidates
    assert len(wanted) > 3
    assert np.array_equal(found.source, wanted.source) and np.array_equal(found.scores, wanted.scores)


def test_more_than_a_side_has(stores: StorePair, tmp_path: Path) -> None:
    kept = find_neighbours(stores, tmp_path / "a.knn", KnnSettings(k=15))
    assert (kept.manifest.k, kept.manifest.forward_k, kept.manifest.backward_k) == (15, 12, 15)


def test_what_cannot_be_searched_leaves_nothing(stores: StorePair, tmp_path: Path) -> None:
    empty = make_store(tmp_path / "e.emb", ["", " "], np.ones((2, 8), np.float32))
    other = make_store(tmp_path / "o.emb", ["a"], np.ones((1, 8), np.float32), fingerprint="g")
    for wrong, message in (
        (empty, r"e\.emb has no sentence to find neighbours of: 2 lines \(2 empty left out\)"),
        (other, "different encoders"),
    ):
        with pytest.raises(MexmaError, match=message):
            find_neighbours((stores[0], wrong), tmp_path / "a.knn")
    assert not list(tmp_path.glob("*knn*"))


def test_the_same_bytes_again(stores: StorePair, tmp_path: Path) -> None:
    paths = [find_neighbours(stores, tmp_path / name, KnnSettings(k=4)).path for name in ("a.knn", "b.knn")]
    for file in paths[0].iterdir():
        assert file.read_bytes() == (paths[1] / file.name).read_bytes()
    assert NeighbourStore.open(paths[0], verify=True)


class TestInterrupted:
    """15 small tiles, and an entry in the journal after every 5, which are a strip."""

    @pytest.fixture(autouse=True)
    def small_steps(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("X_TILE", "Y_TILE"):
            monkeypatch.setattr(exact_search, name, 4)
        monkeypatch.setattr(journal.FileJournal, "due", lambda self: True)

    def stopped(self, stores: StorePair, path: Path, after: int, **options: bool) -> None:
        def stop(done: int, total: int) -> None:
            if done == after:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            find_neighbours(stores, path, KnnSettings(k=4), on_progress=stop, **options)  # type: ignore[arg-type]

    @pytest.mark.parametrize("after", [6, 13])
    def test_goes_on_to_the_same_bytes(self, after: int, stores: StorePair, tmp_path: Path) -> None:
        whole = find_neighbours(stores, tmp_path / "whole.knn", KnnSettings(k=4))
        path, steps = tmp_path / "a.knn", []
        self.stopped(stores, path, after)
        assert [entry.name for entry in tmp_path.glob("a.*")] == ["a.knn.partial"]
        found = inspect(tmp_path / "a.knn.partial")
        assert found.kind == "unfinished output" and "the same `mexma knn`" in found.problems[0]
        find_neighbours(stores, path, KnnSettings(k=4), on_progress=lambda done, total: steps.append(done))
        assert steps[0] > 1
        assert sorted(entry.name for entry in path.iterdir()) == sorted(e.name for e in whole.path.iterdir())
        for file in path.iterdir():
            assert file.read_bytes() == (whole.path / file.name).read_bytes()
        assert not list(tmp_path.glob("*.partial"))

    @pytest.mark.parametrize("index", ["exact", "IVF4,Flat"])
    def test_killed_when_it_has_its_name(
        self, index: str, stores: StorePair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        remove = files.remove

        def deadly(gone: Path, but: tuple[str, ...] = ()) -> None:
            if gone.name == files.PROGRESS:
                raise KeyboardInterrupt
            remove(gone, but)

        monkeypatch.setattr(files, "remove", deadly)
        path, settings = tmp_path / "a.knn", KnnSettings(k=4, index=index)
        monkeypatch.setattr(journal, "SECONDS", 0)
        with pytest.raises(KeyboardInterrupt):
            find_neighbours(stores, path, settings)
        monkeypatch.undo()
        assert path.exists() and [part.name for part in tmp_path.glob("*.partial")] == ["a.knn.partial"]
        for _ in range(2):  # also where it was killed when no more than its end was left to do
            assert kept_already(path, [store.path for store in stores], settings)
            assert not list(tmp_path.glob("*.partial"))
        other = settings.model_copy(update={"recall": 0.5, "memory": 10**10})
        if index != "exact":  # which finds all, and the same in any memory
            with pytest.raises(MexmaError, match=r"recall: 0\.95 there, 0\.5 now; memory: none there"):
                kept_already(path, [store.path for store in stores], other)

    def test_another_search_does_not_go_on_with_it(self, stores: StorePair, tmp_path: Path) -> None:
        self.stopped(stores, tmp_path / "a.knn", 6)
        with pytest.raises(MexmaError, match="is the beginning of another run: k: 4 there, 3 now"):
            find_neighbours(stores, tmp_path / "a.knn", KnnSettings(k=3))
        found = find_neighbours(stores, tmp_path / "a.knn", KnnSettings(k=3), overwrite=True)
        assert found.manifest.k == 3 and not list(tmp_path.glob("*.partial"))
