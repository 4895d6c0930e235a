from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mexma_cli.knn.exact import knn
from mexma_cli.mining.lists import others
from mexma_cli.mining.margin import MARGINS, margin
from mexma_cli.mining.match import match
from mexma_cli.mining.retrieval import RETRIEVALS
from mexma_cli.settings.stages import MineSettings

K = 3


def brute_force(x: np.ndarray, retrieval: str) -> list[tuple[float, int, int]]:
    """Score, lower and upper row, best first, by loops over all pairs."""
    unit = x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-30)
    cosines = unit @ unit.T
    near = [
        sorted(set(range(len(x))) - {row}, key=lambda other: (-cosines[row, other], other))[:K]
        for row in range(len(x))
    ]
    mean = [float(cosines[row, near[row]].mean()) if near[row] else 0.0 for row in range(len(x))]

    def score(a: int, b: int) -> float:
        return float(margin(cosines[a, b], np.float64(mean[a]), np.float64(mean[b])))

    best = {row: max(near[row], key=lambda other: score(row, other)) for row in range(len(x)) if near[row]}
    chosen = {
        "all": {(min(a, b), max(a, b)) for a in range(len(x)) for b in near[a]},
        "intersect": {(a, b) for a, b in combinations(range(len(x)), 2) if best[a] == b and best[b] == a},
    }.get(retrieval, {(min(a, b), max(a, b)) for a, b in best.items()})
    found = sorted(((score(a, b), a, b) for a, b in chosen), key=lambda pair: (-pair[0], *pair[1:]))
    if retrieval != "max":
        return found
    taken: set[int] = set()
    kept = []
    for pair in found:
        if not taken & set(pair[1:]):
            taken |= set(pair[1:])
            kept.append(pair)
    return kept


@pytest.mark.parametrize("retrieval", RETRIEVALS)
@given(rows=st.integers(2, 40), seed=st.integers(0, 1000))
def test_pairs_are_those_of_loops_over_all_pairs(retrieval: str, rows: int, seed: int) -> None:
    x = np.random.default_rng(seed).standard_normal((rows, 8)).astype(np.float32)
    found = match(others(knn(x, x, K + 1), K), MineSettings(retrieval=retrieval), one_text=True)
    wanted = brute_force(x.astype(np.float64), retrieval)
    assert list(zip(found.source.tolist(), found.target.tolist(), strict=True)) == [p[1:] for p in wanted]
    # Where neighbourhoods have a mean near 0, a ratio magnifies the last bits of its cosines.
    np.testing.assert_allclose(found.scores, [pair[0] for pair in wanted], atol=1e-4, rtol=1e-2)


@pytest.mark.parametrize("kind", MARGINS)
@given(rows=st.integers(1, 40), seed=st.integers(0, 1000))
def test_with_many_equal_vectors_no_row_meets_itself_or_pairs_twice(kind: str, rows: int, seed: int) -> None:
    x = np.random.default_rng(seed).integers(-1, 2, (rows, 2)).astype(np.float32)
    near = others(knn(x, x, K + 1), K)
    assert not (near[0].at(np.arange(rows))[1] == np.arange(rows)[:, None]).any()
    for retrieval in RETRIEVALS:
        found = match(near, MineSettings(margin=kind, retrieval=retrieval), one_text=True)
        assert (found.source < found.target).all()
        pairs = list(zip(found.source.tolist(), found.target.tolist(), strict=True))
        assert len(set(pairs)) == len(pairs)
        if retrieval == "max":
            used = found.source.tolist() + found.target.tolist()
            assert len(set(used)) == len(used)
