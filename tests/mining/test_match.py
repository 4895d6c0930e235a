"""Pairs against what LASER's own mine_bitexts.py printed, and the promises of each retrieval."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mexma_cli.mining.margin import KINDS, margin, means
from mexma_cli.mining.match import RETRIEVALS, Candidates, best_of_each, match
from mexma_cli.mining.neighbours import Neighbours, knn


@lru_cache
def laser_case(folder: Path, k: int) -> tuple[np.ndarray, np.ndarray, list[str], list[str], Neighbours]:
    x, y = (np.fromfile(folder / name, np.float32).reshape(-1, 64) for name in ("src.f32", "tgt.f32"))
    source, target = ((folder / name).read_text().splitlines() for name in ("src.txt", "tgt.txt"))
    return x, y, source, target, knn(x, y, k)


def read_mined(path: Path) -> dict[tuple[str, str], float]:
    rows = [line.split("\t") for line in path.read_text().splitlines()]
    return {(source, target): float(score) for score, source, target in rows}


@pytest.mark.parametrize("k", [4, 16])
@pytest.mark.parametrize("kind", KINDS)
class TestLaserParity:
    @pytest.mark.parametrize("retrieval", ["max", "intersect"])
    def test_mine(self, shared: Path, retrieval: str, kind: str, k: int) -> None:
        folder = shared / "fixtures" / "laser"
        _, _, source, target, found = laser_case(folder, k)
        pairs = match(found, kind, retrieval)
        ours = {
            (source[i], target[j]): score
            for score, i, j in zip(pairs.scores.tolist(), pairs.source, pairs.target, strict=True)
        }
        theirs = read_mined(folder / f"mine.{retrieval}.{kind}.k{k}.tsv")
        assert ours.keys() == theirs.keys()
        assert max(abs(ours[pair] - theirs[pair]) for pair in theirs) < 1e-6
        in_our_order = [theirs[pair] for pair in ours]
        assert all(a >= b - 1e-6 for a, b in pairwise(in_our_order))

    def test_score(self, shared: Path, kind: str, k: int) -> None:
        folder = shared / "fixtures" / "laser"
        x, y, source, target, found = laser_case(folder, k)
        forward, backward = means(found)
        n = min(len(x), len(y))
        a, b = (m[:n] / np.linalg.norm(m[:n], axis=1, keepdims=True) for m in (x, y))
        ours = margin((a * b).sum(axis=1, dtype=np.float32), forward[:n], backward[:n], kind)
        rows = [line.split("\t") for line in (folder / f"score.max.{kind}.k{k}.tsv").read_text().splitlines()]
        assert [row[1:] for row in rows] == [list(pair) for pair in zip(source, target, strict=False)]
        np.testing.assert_allclose(ours, [float(row[0]) for row in rows], atol=1e-6)

    def test_search(self, shared: Path, kind: str, k: int) -> None:
        folder = shared / "fixtures" / "laser"
        _, _, _, target, found = laser_case(folder, k)
        forward, _ = best_of_each(found, kind)
        theirs = (folder / f"search.max.{kind}.k{k}.tsv").read_text().splitlines()
        assert [target[j] for j in forward.target] == theirs


def random_neighbours(seed: int, rows: int, columns: int, dim: int = 3) -> Neighbours:
    """Few dimensions and whole numbers: many equal cosines."""
    rng = np.random.default_rng(seed)
    x, y = rng.integers(-1, 2, (rows, dim)), rng.integers(-1, 2, (columns, dim))
    return knn(x.astype(np.float32), y.astype(np.float32), 4)


def pairs_of(found: Candidates) -> list[tuple[int, int]]:
    return list(zip(found.source.tolist(), found.target.tolist(), strict=True))


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    rows=st.integers(1, 40),
    columns=st.integers(1, 40),
    kind=st.sampled_from(KINDS),
)
def test_max_is_one_to_one_and_greedy(seed: int, rows: int, columns: int, kind: str) -> None:
    neighbours = random_neighbours(seed, rows, columns)
    found = match(neighbours, kind, "max", threshold=-np.inf)
    assert len(set(found.source.tolist())) == len(set(found.target.tolist())) == len(found)
    forward, backward = best_of_each(neighbours, kind)
    taken = {pair: score for pair, score in zip(pairs_of(found), found.scores.tolist(), strict=True)}
    by_source = {i: score for (i, _), score in taken.items()}
    by_target = {j: score for (_, j), score in taken.items()}
    for candidates in (forward, backward):
        for (i, j), score in zip(pairs_of(candidates), candidates.scores.tolist(), strict=True):
            blocking = max(by_source.get(i, -np.inf), by_target.get(j, -np.inf))
            assert (i, j) in taken or blocking >= score


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), rows=st.integers(1, 30), columns=st.integers(1, 30))
def test_every_retrieval_is_sorted_and_intersect_is_in_both(seed: int, rows: int, columns: int) -> None:
    neighbours = random_neighbours(seed, rows, columns)
    found = {retrieval: match(neighbours, "ratio", retrieval) for retrieval in RETRIEVALS}
    for candidates in found.values():
        keys = list(zip(-candidates.scores, candidates.source, candidates.target, strict=True))
        assert keys == sorted(keys)
        assert not np.isnan(candidates.scores).any()
    both = set(pairs_of(found["forward"])) & set(pairs_of(found["backward"]))
    assert set(pairs_of(found["intersect"])) == both
    assert len(found["forward"]) == rows and len(found["backward"]) == columns


def test_a_better_pair_claims_its_rows_before_the_threshold_drops_it() -> None:
    """x0-y0 is worse than x0-y1; both are below the threshold of nothing."""
    neighbours = Neighbours(
        forward_scores=np.array([[-0.1, -0.2]], np.float32),
        forward_ids=np.array([[1, 0]]),
        backward_scores=np.array([[-0.2], [-0.1]], np.float32),
        backward_ids=np.array([[0], [0]]),
    )
    assert pairs_of(match(neighbours, "absolute", "max")) == []
    assert pairs_of(match(neighbours, "absolute", "max", threshold=-1)) == [(0, 1)]
    assert pairs_of(match(neighbours, "absolute", "max", threshold=-0.1)) == []
    assert pairs_of(match(neighbours, "absolute", "intersect")) == [(0, 1)]
    assert pairs_of(match(neighbours, "absolute", "intersect", threshold=0)) == []


def test_rows_left_out_are_in_no_pair() -> None:
    rng = np.random.default_rng(5)
    x = rng.standard_normal((20, 4)).astype(np.float32)
    keep = np.arange(20) % 3 > 0
    neighbours = knn(x, x, 2, keep_x=keep, keep_y=keep)
    for retrieval in RETRIEVALS:
        found = match(neighbours, "absolute", retrieval)
        assert sorted(found.source.tolist()) == np.flatnonzero(keep).tolist() == sorted(found.target.tolist())


def test_one_empty_side_gives_no_pairs() -> None:
    neighbours = knn(np.ones((3, 2), np.float32), np.ones((2, 2), np.float32), 4, keep_y=np.zeros(2, bool))
    for retrieval in RETRIEVALS:
        assert len(match(neighbours, "ratio", retrieval)) == 0


def test_an_unknown_retrieval_is_refused() -> None:
    with pytest.raises(ValueError, match="none of max, intersect, forward, backward"):
        match(random_neighbours(0, 2, 2), "ratio", "best")
