from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mexma_cli.knn.exact import knn
from mexma_cli.knn.neighbours import Neighbours
from mexma_cli.knn.sides import SearchSide, dots
from mexma_cli.mining import restricted as module
from mexma_cli.mining.margin import MARGINS, Margin, margin, means
from mexma_cli.mining.restricted import restricted_search
from mexma_cli.settings.stages import MineSettings


def some_vectors(seed: int, rows: int, columns: int, dim: int = 6) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x, y = (rng.standard_normal((n, dim)).astype(np.float32) + np.float32(0.4) for n in (rows, columns))
    y[: columns // 3] = x[rng.integers(0, rows, columns // 3)]
    return x, y


def best_by_hand(
    pairs: set[tuple[int, int]], x: np.ndarray, y: np.ndarray, neighbours: Neighbours, kind: str, k: int
) -> list[list[int]]:
    """The k best columns of every row, by sorting everything."""
    forward, backward = means(neighbours)
    a, b = (side / np.linalg.norm(side, axis=1, keepdims=True) for side in (x, y))
    found: list[list[tuple[float, float, int]]] = [[] for _ in x]
    for i, j in pairs:
        cosine = np.float32(a[i] @ b[j])
        found[i].append((-float(margin(cosine, forward[i], backward[j], kind)), -float(cosine), j))
    return [[j for _, _, j in sorted(row)[:k]] for row in found]


@pytest.mark.parametrize(("tile", "exact"), [(1024, 1 << 12), (7, 1), (1024, 1)])
@given(seed=st.integers(0, 2**32 - 1), kind=st.sampled_from(sorted(MARGINS)), k=st.integers(1, 5))
def test_finds_the_best_of_the_paired_documents(tile: int, exact: int, seed: int, kind: str, k: int) -> None:
    """Against sorting all pairs, with and without estimates and tiles; rows 25 to 29 are in no document."""
    x, y = some_vectors(seed, 30, 24)
    documents = [(range(0, 9), range(0, 12)), (range(9, 10), range(12, 20)), (range(10, 25), range(0, 12))]
    neighbours = knn(x, y, 4)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_TILE", tile)
        patch.setattr(module, "_EXACT", exact)
        arrays = [(np.array(own), np.array(other)) for own, other in documents]
        found = restricted_search(
            x, y, arrays, means(neighbours), MineSettings(margin=kind, k=k, retrieval="all")
        )
    pairs = {(i, j) for own, other in documents for i in own for j in other}
    wanted = best_by_hand(pairs, x, y, neighbours, kind, k)
    assert [[j for j in row if j >= 0] for row in found.forward_ids.tolist()] == wanted
    turned = Neighbours(
        neighbours.backward_scores, neighbours.backward_ids, neighbours.forward_scores, neighbours.forward_ids
    )
    wanted = best_by_hand({(j, i) for i, j in pairs}, y, x, turned, kind, k)
    assert [[i for i in row if i >= 0] for row in found.backward_ids.tolist()] == wanted
    assert (found.forward_ids[25:] == -1).all() and np.isneginf(found.forward_scores[25:]).all()


def test_a_margin_without_a_bound_loses_no_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounding of a cosine changes this score by a tenth: estimates say nothing about it."""
    wild = Margin("wild", lambda c, b: np.sin(np.float32(1e6) * c) - b)
    monkeypatch.setitem(MARGINS, wild.name, wild)
    monkeypatch.setattr(module, "_EXACT", 1)
    x, y = some_vectors(2, 120, 110, dim=64)
    a, b = (SearchSide(side, None).unit_vectors(0, len(side)) for side in (x, y))
    cosines = dots(a, b, *(place.reshape(-1) for place in np.indices((120, 110)))).reshape(120, 110)
    background = means(knn(x, y, 4))
    scores = margin(cosines, background[0][:, None], background[1], wild.name)
    settings = MineSettings(k=3, retrieval="all").but(margin=wild.name)
    found = restricted_search(x, y, [(np.arange(120), np.arange(110))], background, settings)
    for ids, own in ((found.forward_ids, scores), (found.backward_ids, scores.T)):
        best = np.sort(own, axis=1)[:, :-4:-1]
        np.testing.assert_array_equal(np.take_along_axis(own, ids, 1), best)
