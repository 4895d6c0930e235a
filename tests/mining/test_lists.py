from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mexma_cli.knn.exact import knn
from mexma_cli.knn.neighbours import Neighbours
from mexma_cli.mining.candidates import Candidates
from mexma_cli.mining.lists import without_pairs
from mexma_cli.mining.match import match

K = 4


@given(rows=st.integers(6, 30), seed=st.integers(0, 2**32 - 1))
def test_without_pairs_is_the_search_that_may_not_pair_them(rows: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, y = rng.standard_normal((rows, 8)), rng.standard_normal((rows + 3, 8))
    x, y = (side / np.linalg.norm(side, axis=1, keepdims=True) for side in (x, y))
    neighbours = knn(x.astype(np.float32), y.astype(np.float32), K + 1)
    found = match(neighbours.first(K))
    left = without_pairs(neighbours, found, K)
    cosines = x @ y.T
    cosines[found.source, found.target] = -2
    for side, wanted in zip(left, (cosines, cosines.T), strict=True):
        scores, ids = side.at(np.arange(side.count))
        assert (ids == np.argsort(-wanted, axis=1)[:, :K]).all()
        assert np.allclose(scores, -np.sort(-wanted, axis=1)[:, :K], atol=1e-6)


def test_rows_with_few_neighbours_have_fewer() -> None:
    ids = np.array([[1, 0], [0, 1]])
    scores = np.array([[0.9, 0.2], [0.8, 0.1]], dtype=np.float32)
    found = Candidates(scores[:, 0], np.array([0, 1]), np.array([1, 0]), scores[:, 0])
    left = without_pairs(Neighbours(scores, ids, scores, ids), found, 2)
    scores, ids = left[0].at(np.arange(2))
    assert ids.tolist() == [[0, -1], [1, -1]]
    assert scores[:, 0].tolist() == pytest.approx([0.2, 0.1])
