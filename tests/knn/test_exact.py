from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mexma_cli.errors import MexmaError
from mexma_cli.knn import cosines, exact_search, kernels
from mexma_cli.knn.device import OnDevice
from mexma_cli.knn.exact import knn
from mexma_cli.knn.neighbours import Neighbours
from mexma_cli.store.journal import FileJournal
from tests.knn.searching import KINDS, Killed, Source, crowded, same, with_product


def brute_force(x: np.ndarray, y: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Scores and ids from x to y, sorted by (score descending, id ascending), in float64."""

    def units(vectors: np.ndarray) -> np.ndarray:
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors / np.where(norms == 0, 1, norms)

    products = units(x.astype(np.float64)) @ units(y.astype(np.float64)).T
    ids = np.argsort(-products, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(products, ids, 1), ids


def check(found: Neighbours, x: np.ndarray, y: np.ndarray, k: int, ties: float = 0.0) -> None:
    """`ties` is the share of ids that may differ where float32 has equal cosines."""
    for scores, ids, own, other in (
        (found.forward_scores, found.forward_ids, x, y),
        (found.backward_scores, found.backward_ids, y, x),
    ):
        wanted_scores, wanted_ids = brute_force(own, other, k)
        assert scores.dtype == np.float32 and ids.dtype == np.int64
        np.testing.assert_allclose(scores, wanted_scores, atol=1e-6)
        assert ids.shape == wanted_ids.shape and (ids != wanted_ids).sum() <= ties * ids.size


@settings(max_examples=60)
@given(
    rows=st.integers(1, 90),
    columns=st.integers(1, 90),
    k=st.integers(1, 20),
    seed=st.integers(0, 2**32 - 1),
    x_tile=st.integers(1, 100),
    y_tile=st.integers(1, 100),
)
def test_is_brute_force_for_any_tiling(
    rows: int, columns: int, k: int, seed: int, x_tile: int, y_tile: int
) -> None:
    """Vectors whose cosines are exact in float32, with ties, zeros and equal rows everywhere."""
    rng = np.random.default_rng(seed)
    x, y = np.zeros((rows, 8), np.float32), np.zeros((columns, 8), np.float32)
    for vectors in (x, y):
        for row in vectors:  # one or four entries of one size: norms are powers of two
            row[rng.permutation(8)[: rng.choice([0, 1, 4, 4])]] = rng.choice([1.0, -1.0])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact_search, "X_TILE", x_tile)
        patch.setattr(exact_search, "Y_TILE", y_tile)
        check(knn(x, y, k), x, y, k)


@pytest.mark.parametrize("shape", [(5000, 700, 16, 4), (300, 4500, 24, 16), (2600, 2600, 8, 1)])
def test_is_brute_force_over_full_tiles(shape: tuple[int, int, int, int]) -> None:
    rows, columns, dim, k = shape
    rng = np.random.default_rng(0)
    x = rng.standard_normal((rows, dim)).astype(np.float32)
    y = rng.standard_normal((columns, dim)).astype(np.float32)
    check(knn(x, y, k), x, y, k, ties=0.001)


def test_a_pair_scores_the_same_in_both_directions() -> None:
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((50, 33)), rng.standard_normal((40, 33))
    found = knn(x.astype(np.float32), y.astype(np.float32), 50)
    forward = np.empty((50, 40), np.float32)
    np.put_along_axis(forward, found.forward_ids, found.forward_scores, 1)
    backward = np.empty((40, 50), np.float32)
    np.put_along_axis(backward, found.backward_ids, found.backward_scores, 1)
    np.testing.assert_array_equal(forward, backward.T)


def test_rows_left_out_are_nobodys_neighbour_and_ids_stay_row_numbers() -> None:
    rng = np.random.default_rng(2)
    x, y = rng.standard_normal((60, 5)).astype(np.float32), rng.standard_normal((50, 5)).astype(np.float32)
    keep_x, keep_y = rng.random(60) < 0.7, rng.random(50) < 0.5
    x[~keep_x] = np.nan  # not even looked at
    found = knn(x, y, 3, keep_x=keep_x, keep_y=keep_y)
    assert (found.forward_ids[~keep_x] == -1).all() and np.isneginf(found.forward_scores[~keep_x]).all()
    alone = knn(x[keep_x], y[keep_y], 3)
    np.testing.assert_array_equal(found.forward_ids[keep_x], np.flatnonzero(keep_y)[alone.forward_ids])
    np.testing.assert_array_equal(found.backward_ids[keep_y], np.flatnonzero(keep_x)[alone.backward_ids])
    np.testing.assert_array_equal(found.backward_scores[keep_y], alone.backward_scores)


def test_streams_a_source_in_blocks_and_reports_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact_search, "X_TILE", 2048)
    monkeypatch.setattr(exact_search, "Y_TILE", 2048)
    rng = np.random.default_rng(3)
    x, y = Source(rng.standard_normal((9000, 4))), Source(rng.standard_normal((3000, 4)))
    seen: list[tuple[int, int]] = []
    knn(x, y, 2, on_progress=lambda done, total: seen.append((done, total)))
    assert x.longest <= 4096 and y.longest <= exact_search.Y_TILE
    assert seen == [(done, 10) for done in range(1, 11)]


def test_an_empty_side_has_no_neighbours() -> None:
    found = knn(np.ones((3, 2), np.float32), np.ones((2, 2), np.float32), 4, keep_y=np.zeros(2, bool))
    assert found.forward_ids.shape == (3, 0) and found.backward_ids.shape == (2, 3)
    assert (found.backward_ids == -1).all()


def test_refuses_what_it_cannot_answer() -> None:
    good, bad = np.ones((3, 2), np.float32), np.ones((3, 2), np.float32)
    bad[1, 0] = np.inf
    with pytest.raises(ValueError, match="row 1 is not finite"):
        knn(good, bad, 1)
    with pytest.raises(ValueError, match="2 and of 3 dimensions"):
        knn(good, np.ones((3, 3), np.float32), 1)
    with pytest.raises(ValueError, match="at least 1"):
        knn(good, good, 0)


@settings(max_examples=40)
@given(
    seed=st.integers(0, 1000),
    sizes=st.tuples(st.integers(0, 110), st.integers(0, 90)),
    k=st.sampled_from([1, 2, 6, 100]),
    kind=st.sampled_from(list(KINDS)),
    tile=st.tuples(st.integers(1, 80), st.integers(1, 80)),
    x_rows=st.integers(3, 200),
    pairs=st.sampled_from([1, 50, 1000]),
    ties=st.booleans(),
    threads=st.integers(1, 3),
)
def test_the_same_bytes_in_all_products_however_it_is_cut(
    seed: int,
    sizes: tuple[int, int],
    k: int,
    kind: str,
    tile: tuple[int, int],
    x_rows: int,
    pairs: int,
    ties: bool,
    threads: int,
) -> None:
    x, y = crowded(sizes[0], 9, seed), crowded(sizes[1], 9, seed + 1)
    if ties:
        x, y = (np.round(side - 3).astype(np.float32) for side in (x, y))
    keep = np.random.default_rng(seed).random(sizes[0]) < 0.9
    wanted = knn(x, y, k, keep_x=keep)
    before = torch.get_num_threads()
    try:
        with pytest.MonkeyPatch.context() as patch:
            with_product(patch, KINDS[kind])
            patch.setattr(exact_search, "X_TILE", tile[0])
            patch.setattr(exact_search, "Y_TILE", tile[1])
            patch.setattr(exact_search, "X_ROWS", x_rows)
            patch.setattr(exact_search, "_GROUPS", 8)  # so that small tiles have floors, too
            for module in (exact_search, cosines, kernels):
                patch.setattr(module, "PAIRS", pairs)
            patch.setattr("mexma_cli.numerics.threads._PARALLEL_FROM", 0)
            torch.set_num_threads(threads)
            assert same(knn(x, y, k, keep_x=keep), wanted)
    finally:
        torch.set_num_threads(before)


class Diary(FileJournal):
    """A journal in memory that kills the search after some entries."""

    def __init__(self, entries: int) -> None:
        self.entries = entries
        self.kept: tuple[tuple[int, int, int], np.ndarray, np.ndarray] | None = None

    def load(self, forward: np.ndarray, backward: np.ndarray) -> tuple[int, int, int] | None:
        if self.kept is None:
            return None
        place, forward[:], backward[:] = self.kept
        return place

    def due(self) -> bool:
        return True

    def save(self, place: tuple[int, int, int], forward: np.ndarray, backward: np.ndarray) -> None:
        self.kept = place, forward.copy(), backward.copy()
        self.entries -= 1
        if self.entries < 0:
            raise Killed


@pytest.mark.parametrize(
    ("entries", "product"),
    [(0, "float32"), (1, "float32"), (3, "float32"), (4, "float32"), (1, "device"), (3, "device")],
)
def test_killed_and_started_again_gives_the_same_bytes(
    monkeypatch: pytest.MonkeyPatch, entries: int, product: str
) -> None:
    x, y = crowded(900, 16, 5), crowded(700, 16, 6)
    wanted = knn(x, y, 5)
    with_product(monkeypatch, KINDS[product])
    monkeypatch.setattr(exact_search, "X_TILE", 128)
    monkeypatch.setattr(exact_search, "Y_TILE", 256)
    monkeypatch.setattr(exact_search, "X_ROWS", 384)
    diary = Diary(entries)
    with pytest.raises(Killed):
        knn(x, y, 5, journal=diary)
    monkeypatch.setattr(exact_search, "X_ROWS", 256)  # the next run would choose other blocks
    seen: list[int] = []
    diary.entries = 100
    again = knn(x, y, 5, journal=diary, on_progress=lambda done, total: seen.append(done))
    assert same(again, wanted)
    assert len(seen) < 8 * 3  # it did not begin at the beginning


def test_a_device_reads_no_more_than_the_memory_has_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("X_TILE", "Y_TILE", "_READ"):
        monkeypatch.setattr(exact_search, name, 64)
    x, y = (Source(crowded(1000, 8, seed)) for seed in (5, 6))
    wanted = knn(x, y, 5)
    with_product(monkeypatch, partial(OnDevice, device="cpu", larger=(2, 4)))
    found, read = [], []
    for memory in (None, exact_search.least_bytes(1000, 1000, 8, 5)):
        x.longest = y.longest = 0
        found.append(knn(x, y, 5, memory=memory))
        read.append((x.longest, y.longest))
    assert all(same(each, wanted) for each in found)
    assert read == [(128, 256), (125, 125)]  # 125 of a sample


def test_little_memory_changes_nothing_and_too_little_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact_search, "X_TILE", 2048)
    rng = np.random.default_rng(9)
    x, y = rng.standard_normal((9000, 8)), rng.standard_normal((3000, 8))
    sources = Source(x), Source(y)
    least = exact_search.bytes_needed(9000, 3000, 8, 4, exact_search.X_TILE)
    assert same(knn(*sources, 4, memory=least), knn(*sources, 4))
    with pytest.raises(
        MexmaError, match=r"4 neighbours of 9,000 and 3,000 rows of 8 dimensions need [1-9][0-9.]+ MB"
    ):
        knn(*sources, 4, memory=least - 1)


def test_lists_and_tensors_are_arrays_and_one_vector_is_none() -> None:
    x, y = crowded(40, 8, 1), crowded(30, 8, 2)
    wanted = knn(x, y, 3)
    assert same(knn(x.tolist(), y.tolist(), 3), wanted)
    assert same(knn(torch.from_numpy(x), torch.from_numpy(y), 3), wanted)
    with pytest.raises(ValueError, match=r"^an array of shape \(8,\), not rows of vectors$"):
        knn(x[0], y, 3)


def test_does_not_go_on_with_less_memory_than_it_began_with(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = crowded(900, 16, 5), crowded(700, 16, 6)
    monkeypatch.setattr(exact_search, "X_TILE", 64)
    monkeypatch.setattr(exact_search, "Y_TILE", 256)
    diary = Diary(0)
    with pytest.raises(Killed):
        knn(x, y, 5, journal=diary)
    with pytest.raises(MexmaError, match="begun with more memory"):
        knn(x, y, 5, journal=diary, memory=exact_search.bytes_needed(900, 700, 16, 5, 64))
