from __future__ import annotations

import random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from mexma_cli.knn import kernels
from mexma_cli.knn.cosines import keys_of, rows_of, scores_of
from mexma_cli.knn.exact import knn
from mexma_cli.knn.spans import Span, merged, neighbours_in, search_tile


def spans(rows: int, size: int) -> list[Span]:
    return [Span(start, min(start + size, rows)) for start in range(0, rows, size)]


@given(
    sizes=st.tuples(st.integers(1, 30), st.integers(1, 30)),
    tiles=st.tuples(st.integers(3, 20), st.integers(3, 20)),
    k=st.integers(1, 6),
    seed=st.integers(0, 100),
    whole=st.booleans(),
)
def test_merged_tiles_are_the_search_in_one(
    sizes: tuple[int, int], tiles: tuple[int, int], k: int, seed: int, whole: bool
) -> None:
    rng = np.random.default_rng(seed)
    # Whole numbers in few dimensions: many equal cosines.
    x, y = (
        (rng.integers(-1, 2, (rows, 3)) if whole else rng.standard_normal((rows, 3))).astype(np.float32)
        for rows in sizes
    )
    keep = tuple(rng.random(rows) < 0.8 for rows in sizes)
    wanted = knn(x, y, k, keep_x=keep[0], keep_y=keep[1])
    across, down = spans(sizes[0], tiles[0]), spans(sizes[1], tiles[1])
    sides = (Rows(x), Rows(y))
    found = {
        (a, b): search_tile(sides, (keep[0][slice(*a)], keep[1][slice(*b)]), (a, b), k)
        for a in across
        for b in down
    }
    shuffled = list(found.items())
    random.Random(seed).shuffle(shuffled)
    forward = [merged([lists[0] for (a, _), lists in shuffled if a == span], k) for span in across]
    backward = [merged([lists[1] for (_, b), lists in shuffled if b == span], k) for span in down]
    for parts, scores, ids in (
        (forward, wanted.forward_scores, wanted.forward_ids),
        (backward, wanted.backward_scores, wanted.backward_ids),
    ):
        ours, width = neighbours_in(np.concatenate(parts)), ids.shape[1]
        assert np.array_equal(ours[1][:, :width], ids) and (ours[1][:, width:] == -1).all()
        assert ours[0][:, :width].tobytes() == scores.tobytes()


class Rows:
    """An array as a source."""

    def __init__(self, rows: np.ndarray) -> None:
        self._rows = rows
        self.rows, self.dim = rows.shape

    def vectors(self, start: int, stop: int) -> np.ndarray:
        return self._rows[start:stop]


compiled_key = njit(lambda score, row: kernels.key(score, row))  # loops alone can call it


@given(st.lists(st.floats(-1, 1, width=32), min_size=1), st.integers(0, 2**32 - 100))
def test_keys_hold_scores_and_rows(scores: list[float], first: int) -> None:
    exact, rows = np.array(scores, np.float32), first + np.arange(len(scores))
    keys = keys_of(exact, rows)
    assert np.array_equal(scores_of(keys), exact) and np.array_equal(rows_of(keys), rows)
    assert keys.tolist() == [compiled_key(score, row) for score, row in zip(exact, rows, strict=True)]
