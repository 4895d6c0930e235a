from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mexma_cli.mining import neighbours
from mexma_cli.mining.neighbours import Neighbours, knn


def brute_force(x: np.ndarray, y: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Scores and ids from x to y, sorted by (score descending, id ascending), in float64."""

    def units(vectors: np.ndarray) -> np.ndarray:
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors / np.where(norms == 0, 1, norms)

    cosines = units(x.astype(np.float64)) @ units(y.astype(np.float64)).T
    ids = np.argsort(-cosines, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(cosines, ids, 1), ids


def check(found: Neighbours, x: np.ndarray, y: np.ndarray, k: int) -> None:
    for scores, ids, own, other in (
        (found.forward_scores, found.forward_ids, x, y),
        (found.backward_scores, found.backward_ids, y, x),
    ):
        wanted_scores, wanted_ids = brute_force(own, other, k)
        assert scores.dtype == np.float32 and ids.dtype == np.int64
        np.testing.assert_allclose(scores, wanted_scores, atol=1e-6)
        np.testing.assert_array_equal(ids, wanted_ids)


class Source:
    """What an EmbeddingStore looks like from here."""

    def __init__(self, vectors: np.ndarray) -> None:
        self._vectors = vectors.astype(np.float16)
        self.rows, self.dim = vectors.shape
        self.longest = 0

    def vectors(self, start: int, stop: int) -> np.ndarray:
        self.longest = max(self.longest, stop - start)
        return self._vectors[start:stop].astype(np.float32)


@settings(max_examples=60, deadline=None)
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
        patch.setattr(neighbours, "X_TILE", x_tile)
        patch.setattr(neighbours, "Y_TILE", y_tile)
        check(knn(x, y, k), x, y, k)


@pytest.mark.parametrize("shape", [(5000, 700, 16, 4), (300, 4500, 24, 16), (2600, 2600, 8, 1)])
def test_is_brute_force_over_full_tiles(shape: tuple[int, int, int, int]) -> None:
    rows, columns, dim, k = shape
    rng = np.random.default_rng(0)
    x = rng.standard_normal((rows, dim)).astype(np.float32)
    y = rng.standard_normal((columns, dim)).astype(np.float32)
    found = knn(x, y, k)
    wanted_scores, wanted_ids = brute_force(x, y, k)
    np.testing.assert_allclose(found.forward_scores, wanted_scores, atol=1e-6)
    assert (found.forward_ids == wanted_ids).mean() > 0.999  # float32 ties a few
    wanted_scores, wanted_ids = brute_force(y, x, k)
    np.testing.assert_allclose(found.backward_scores, wanted_scores, atol=1e-6)
    assert (found.backward_ids == wanted_ids).mean() > 0.999


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


def test_streams_a_source_in_blocks_and_reports_progress() -> None:
    rng = np.random.default_rng(3)
    x, y = Source(rng.standard_normal((5000, 4))), Source(rng.standard_normal((3000, 4)))
    seen: list[tuple[int, int]] = []
    knn(x, y, 2, on_progress=lambda done, total: seen.append((done, total)))
    assert x.longest <= neighbours.X_TILE and y.longest <= neighbours.Y_TILE
    assert seen == [(done, 6) for done in range(1, 7)]


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


def test_leaves_torchs_precision_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbours, "_FAST_FROM", 0)
    before = torch.get_float32_matmul_precision()
    x = np.random.default_rng(4).standard_normal((700, 64)).astype(np.float32)
    found = knn(x, x, 1)
    assert torch.get_float32_matmul_precision() == before
    np.testing.assert_allclose(found.forward_scores, 1, atol=1e-6)  # bfloat16 would miss by 1e-3
