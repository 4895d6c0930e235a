from __future__ import annotations

import resource
import tempfile
from itertools import pairwise
from pathlib import Path

import faiss
import numpy as np
import pytest

from mexma_cli.errors import MexmaError
from mexma_cli.files import Unfinished
from mexma_cli.knn import approximate as module
from mexma_cli.knn import faiss_index, index_search
from mexma_cli.knn.approximate import ApproximateNeighbours, ann
from mexma_cli.knn.exact import knn
from mexma_cli.knn.faiss_index import SIZES, choose_index
from mexma_cli.knn.neighbours import Neighbours
from mexma_cli.knn.sides import SearchSide
from mexma_cli.settings.stages import SearchSettings
from mexma_cli.store.journal import FileJournal
from tests.knn.searching import Source, same
from tests.stores import flip

K = 8


@pytest.fixture(scope="module")
def sides() -> tuple[np.ndarray, np.ndarray]:
    """3,000 and 2,500 rows around 100 topics; half of the second are noisy copies of the first."""
    rng = np.random.default_rng(0)
    topics = rng.standard_normal((100, 32), dtype=np.float32)
    x = topics[rng.integers(0, 100, 3000)] + rng.standard_normal((3000, 32), dtype=np.float32)
    y = topics[rng.integers(0, 100, 2500)] + rng.standard_normal((2500, 32), dtype=np.float32)
    y[:1250] = x[rng.permutation(3000)[:1250]] + 0.5 * rng.standard_normal((1250, 32), dtype=np.float32)
    return x, y


def found_of(exact: np.ndarray, ids: np.ndarray) -> float:
    return float((exact[:, :, None] == ids[:, None, :]).any(axis=2).mean())


def true_recall(found: Neighbours, exact: Neighbours) -> float:
    forward = found_of(exact.forward_ids, found.forward_ids)
    return (forward + found_of(exact.backward_ids, found.backward_ids)) / 2


def check_honest(found: Neighbours, x: np.ndarray, y: np.ndarray) -> None:
    """Cosines are those of the named rows, each row is whole, sorted and without a repetition."""
    for scores, ids, own, other in (
        (found.forward_scores, found.forward_ids, x, y),
        (found.backward_scores, found.backward_ids, y, x),
    ):
        left = own / np.linalg.norm(own.astype(np.float64), axis=1, keepdims=True)
        right = other / np.linalg.norm(other.astype(np.float64), axis=1, keepdims=True)
        assert scores.dtype == np.float32 and ids.dtype == np.int64
        np.testing.assert_allclose(scores, np.einsum("nd,nkd->nk", left, right[ids]), atol=1e-6)
        falls = np.diff(scores, axis=1)
        assert (falls <= 0).all() and (np.diff(ids, axis=1)[falls == 0] > 0).all()
        assert (np.diff(np.sort(ids, axis=1), axis=1) > 0).all()


@pytest.mark.parametrize(
    "index", ["IVF32,PQ16x4fs", "IVF64_HNSW16,Flat", "PCA16,IVF32,SQ8", "HNSW16,SQ8", "PQ16x4fs,RFlat"]
)
def test_finds_what_it_says_it_finds(sides: tuple[np.ndarray, np.ndarray], index: str) -> None:
    x, y = sides
    found = ann(x, y, K, SearchSettings(index=index, recall=0.9))
    check_honest(found.neighbours, x, y)
    exact = knn(x, y, K)
    assert found.recall >= 0.87 and min(found.effort.recall_first) >= 0.87
    assert abs(true_recall(found.neighbours, exact) - found.recall) < 0.03
    assert found.effort.index == index and found.effort.sample == (512, 512)


def test_searches_as_hard_as_the_recall_wants(sides: tuple[np.ndarray, np.ndarray]) -> None:
    runs = [ann(*sides, K, SearchSettings(index="IVF64,PQ16x4fs", recall=recall)) for recall in (0.5, 0.99)]
    probed = [int(run.effort.parameters[0].removeprefix("nprobe=")) for run in runs]
    assert probed[0] < probed[1]
    assert runs[0].recall < runs[1].recall and runs[1].recall > 0.97


def test_a_flat_index_is_exact(sides: tuple[np.ndarray, np.ndarray]) -> None:
    found = ann(*sides, K, SearchSettings(index="Flat"))
    assert same(found.neighbours, knn(*sides, K)) and found.recall == min(found.effort.recall_first) == 1
    assert found.effort.parameters == ("", "")


def test_what_is_small_is_searched_exactly(sides: tuple[np.ndarray, np.ndarray]) -> None:
    found = ann(*sides, K)
    assert found.effort.index == "exact" and found.recall == 1 and same(found.neighbours, knn(*sides, K))


def test_auto_chooses_by_each_sides_size(
    sides: tuple[np.ndarray, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(faiss_index, "EXACT_PAIRS", 0)
    monkeypatch.setattr(faiss_index, "SIZES", ((2600, "Flat"), (10_000, "IVF32")))
    found = ann(*sides, K)
    assert found.effort.indexes == ("Flat", "IVF32,PQ16x4fs")
    assert found.effort.index == "Flat and IVF32,PQ16x4fs"
    check_honest(found.neighbours, *sides)


def test_every_choice_is_an_index_that_faiss_knows() -> None:
    for rows in [1, *(most for most, _ in SIZES), 10**9]:
        for dim in (1, 3, 256, 257, 768, 1023, 1024):
            index = faiss.index_factory(dim, choose_index(rows, dim), faiss.METRIC_INNER_PRODUCT)
            assert index.d == dim
    assert (
        choose_index(1_000_000, 1024) == "IVF4096,PQ256x4fs"
        and choose_index(1_000_000, 256) == "IVF4096,PQ128x4fs"
    )


def test_the_same_seed_gives_the_same_bytes(
    sides: tuple[np.ndarray, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = []
    for seed in (1, 1, 2):
        for where in (index_search, faiss_index):
            monkeypatch.setattr(where, "SEED", seed)
        runs.append(ann(*sides, K, SearchSettings(index="IVF64,PQ8x4fs", recall=0.6)))
    assert same(runs[0].neighbours, runs[1].neighbours) and runs[0].effort == runs[1].effort
    assert not same(runs[0].neighbours, runs[2].neighbours)


def test_what_does_not_fit_is_cut_into_files(
    sides: tuple[np.ndarray, np.ndarray], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Searching all lists of all parts must find what searching one index does."""
    results = 20 * K * (3000 + 2500)
    monkeypatch.setattr(module, "_OVERHEAD", 0)
    monkeypatch.setattr(module, "_LEAST", 1 << 18)
    monkeypatch.setattr(faiss_index, "BLOCK", 512)
    monkeypatch.setattr(index_search, "BLOCK", 512)
    monkeypatch.setattr(index_search, "BLOCK_BYTES", 512 * 4 * 32)
    seen: list[int] = []
    x, y = Source(sides[0]), Source(sides[1])

    def look(done: int, total: int) -> None:
        seen.append(len(list(tmp_path.rglob("*.faiss"))))

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    settings = SearchSettings(index="IVF16,SQ8", memory=results + (1 << 19))
    small = ann(x, y, K, settings, on_progress=look)
    assert min(small.files) > 1 and max(seen) >= small.files[0]
    assert not list(tmp_path.iterdir())
    assert x.longest < 3000 and y.longest < 2500
    check_honest(small.neighbours, *sides)
    assert abs(true_recall(small.neighbours, knn(*sides, K)) - small.recall) < 0.03 and small.recall > 0.93


def test_lists_are_as_near_as_those_of_faiss() -> None:
    side = SearchSide(np.random.default_rng(3).standard_normal((4000, 16), dtype=np.float32), None)
    vectors = side.unit_vectors(0, 4000)
    index = faiss.index_factory(16, "IVF64,Flat", faiss.METRIC_INNER_PRODUCT)
    index.cp.niter = faiss_index.ROUNDS
    index.train(vectors)
    both = index, faiss_index.train(side, "IVF64,Flat")
    theirs, ours = (faiss.downcast_index(one.quantizer).search(vectors, 1)[0] for one in both)
    assert ours.mean() == pytest.approx(theirs.mean(), rel=0.01)


@pytest.mark.parametrize("factory", ["IVF8,PQ8x4fs", "Pad20,IVF8,Flat"])
def test_an_index_in_parts_answers_as_in_one_even_where_it_cannot_tell_rows_apart(factory: str) -> None:
    rng = np.random.default_rng(7)
    rows = rng.integers(-1, 2, (3000, 16)).astype(np.float32)
    rows[:300] = rows[0]  # more equals than are looked at beyond those that are wanted
    side = SearchSide(rows, None)
    trained = faiss_index.train(side, factory)
    answers = []
    for cuts in ([3000], [3000, 1], [3000, 2999, 1700, 40], [3000, 1500]):
        partitioned = faiss_index.PartitionedIndex(factory, trained)
        for first, last in pairwise([0, *cuts[::-1]]):
            index = faiss_index.fill(faiss.clone_index(trained), side, first, last)
            partitioned.held.append((first, index))
        answers.append(partitioned.search(side.unit_vectors(200, 600), 64))
    assert all(np.array_equal(answers[0], other) for other in answers)
    assert answers[0][0].tolist() == list(range(64))


def test_too_little_memory_is_a_message(sides: tuple[np.ndarray, np.ndarray]) -> None:
    with pytest.raises(MexmaError, match=r"need .* kB and the search .* MB, 1.0 MB are there") as caught:
        ann(*sides, K, SearchSettings(index="IVF16,Flat", memory=1 << 20))
    assert "--memory" in str(caught.value.hint)


def test_a_folder_that_cannot_be_written_is_a_message(
    sides: tuple[np.ndarray, np.ndarray], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(index: faiss.Index, path: str) -> None:
        raise RuntimeError(
            "Error in write at /x/io.cpp:5: Error: 'ret == n' failed: write error: No space left"
        )

    monkeypatch.setattr(module, "_OVERHEAD", 0)
    monkeypatch.setattr(module, "_LEAST", 1 << 18)
    monkeypatch.setattr(faiss, "write_index", full)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(MexmaError, match=r"cannot be written.*: write error: No space left"):
        ann(*sides, K, SearchSettings(index="IVF16,SQ8", memory=20 * K * 5500 + (1 << 19)))
    assert not list(tmp_path.iterdir())


def test_an_index_whose_last_bytes_find_no_room_gets_no_name(tmp_path: Path) -> None:
    index = faiss.IndexFlatIP(8)
    index.add(np.ones((200, 8), np.float32))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (6400, limits[1]))
        with pytest.raises(MexmaError, match=f"cannot be written to {tmp_path}: File too large"):
            faiss_index.write_index(index, tmp_path / "index-x.faiss")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not list(tmp_path.iterdir())


def test_a_flipped_bit_in_the_index_of_an_earlier_run_is_found(tmp_path: Path) -> None:
    index, path = faiss.IndexFlatIP(8), tmp_path / "index-x.faiss"
    index.add(np.ones((200, 8), np.float32))
    checksum = faiss_index.write_index(index, path)
    assert faiss_index.read_index(path, checksum).ntotal == 200
    for at in (-1, -100):
        flip(path, at)
        with pytest.raises(MexmaError, match=r"index-x\.faiss is damaged: its checksum"):
            faiss_index.read_index(path, checksum)
        flip(path, at)


def test_rows_left_out_are_nobodys_neighbour(sides: tuple[np.ndarray, np.ndarray]) -> None:
    x, y = sides[0].copy(), sides[1]
    rng = np.random.default_rng(3)
    keep_x, keep_y = rng.random(len(x)) < 0.6, rng.random(len(y)) < 0.6
    x[~keep_x] = np.nan  # not even looked at
    found = ann(
        x, y, K, SearchSettings(index="IVF16,Flat", recall=1.0), keep_x=keep_x, keep_y=keep_y
    ).neighbours
    assert (found.forward_ids[~keep_x] == -1).all() and np.isneginf(found.forward_scores[~keep_x]).all()
    assert keep_y[found.forward_ids[keep_x]].all() and keep_x[found.backward_ids[keep_y]].all()
    exact = knn(x, y, K, keep_x=keep_x, keep_y=keep_y)
    assert found_of(exact.forward_ids[keep_x], found.forward_ids[keep_x]) > 0.98


def test_rows_that_the_index_answers_with_too_little_are_answered_exactly() -> None:
    """Two far clusters, more neighbours wanted than there are rows in one of them."""
    rng = np.random.default_rng(4)
    y = rng.standard_normal((600, 8)).astype(np.float32) * 0.01
    y[:590, 0] += 1
    y[590:, 0] -= 1
    found = ann(y, y, 20, SearchSettings(index="IVF2,Flat", recall=0.1))
    assert (found.neighbours.forward_ids >= 0).all() and (found.neighbours.backward_ids >= 0).all()
    check_honest(found.neighbours, y, y)


def test_k_is_at_most_the_rows_of_the_other_side_and_an_empty_side_has_none() -> None:
    rng = np.random.default_rng(5)
    x, y = rng.standard_normal((300, 8)).astype(np.float32), rng.standard_normal((5, 8)).astype(np.float32)
    found = ann(x, y, 7, SearchSettings(index="Flat")).neighbours
    assert found.forward_ids.shape == (300, 5) and found.backward_ids.shape == (5, 7)
    assert same(found, knn(x, y, 7))
    none = ann(x, y, 7, SearchSettings(index="IVF2,Flat"), keep_y=np.zeros(5, bool))
    assert none.neighbours.forward_ids.shape == (300, 0) and (none.neighbours.backward_ids == -1).all()


def test_progress_ends_with_all_rows(sides: tuple[np.ndarray, np.ndarray]) -> None:
    seen: list[tuple[int, int]] = []
    ann(
        *sides,
        K,
        SearchSettings(index="IVF16,Flat"),
        on_progress=lambda done, total: seen.append((done, total)),
    )
    assert seen[-1] == (11_000, 11_000) and seen == sorted(seen)


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ("nonsense", "'nonsense' for 32 dimensions: could not parse index string nonsense"),
        ("IVF16,PQ5x4fs", "multiple of the number of subquantizers"),
        ("IVF4096,Flat", r"cannot be trained on 2,500 rows: Number of training points \(2500\)"),
    ],
)
def test_an_index_that_faiss_refuses_is_a_message(
    sides: tuple[np.ndarray, np.ndarray], index: str, message: str
) -> None:
    with pytest.raises(MexmaError, match=message) as caught:
        ann(*sides, K, SearchSettings(index=index))
    assert "/" not in caught.value.message and caught.value.hint


def test_refuses_what_it_cannot_answer(sides: tuple[np.ndarray, np.ndarray]) -> None:
    x, y = sides
    with pytest.raises(ValueError, match="at least 1"):
        ann(x, y, 0, SearchSettings(index="IVF16,Flat"))
    with pytest.raises(ValueError, match="32 and of 31 dimensions"):
        ann(x, y[:, :31], 1)
    bad = y.copy()
    bad[7, 0] = np.inf
    with pytest.raises(ValueError, match="row 7 is not finite"):
        ann(x, bad, 1, SearchSettings(index="IVF16,Flat"))


@pytest.mark.parametrize("memory", [None, 20 * K * 5500 + (1 << 19)])
def test_an_interrupted_search_trains_fills_and_asks_nothing_twice(
    sides: tuple[np.ndarray, np.ndarray], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, memory: int | None
) -> None:
    for name, value in (("_OVERHEAD", 0), ("_LEAST", 1 << 18), ("CHUNK", 1 << 17)):
        monkeypatch.setattr(module, name, value)
    monkeypatch.setattr(FileJournal, "due", lambda self: True)
    settings = SearchSettings(index="IVF16,PQ8x4fs", recall=0.6, memory=memory)
    wanted = ann(*sides, K, settings)

    def run(stop: int) -> tuple[ApproximateNeighbours | None, list[int]]:
        seen: list[int] = []

        def watch(done: int, total: int) -> None:
            seen.append(done)
            if done > stop:
                raise KeyboardInterrupt

        journal = FileJournal(tmp_path, Unfinished(by="knn", of={}))
        try:
            return ann(*sides, K, settings, journal=journal, on_progress=watch), seen
        except KeyboardInterrupt:
            return None, seen

    assert run(8000)[0] is None
    monkeypatch.setattr(faiss_index, "train", None)  # would be an error now
    again, seen = run(11_000)
    assert again is not None and same(again.neighbours, wanted.neighbours)
    assert (again.effort, again.files) == (wanted.effort, wanted.files)
    assert seen[-1] == 11_000 and sum(5500 < done < 7500 for done in seen) == 0


def test_faiss_keeps_its_number_of_threads(sides: tuple[np.ndarray, np.ndarray], two_threads: None) -> None:
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        assert ann(*sides, K, SearchSettings(index="IVF16,Flat")).recall > 0.9
        assert faiss.omp_get_max_threads() == 1
    finally:
        faiss.omp_set_num_threads(before)
