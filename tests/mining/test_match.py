"""Pairs against what LASER's own mine_bitexts.py printed, and the promises of each retrieval."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mexma_cli.knn.exact import knn
from mexma_cli.knn.neighbours import Neighbours
from mexma_cli.mining import lists
from mexma_cli.mining import match as module
from mexma_cli.mining import retrieval as taking
from mexma_cli.mining.candidates import PAIR, Candidates
from mexma_cli.mining.margin import MARGINS, margin, means
from mexma_cli.mining.match import match
from mexma_cli.mining.retrieval import RETRIEVALS, least_of
from mexma_cli.settings.stages import MineSettings
from mexma_cli.store import spool
from tests.reference import laser, laser_mined


@lru_cache
def laser_neighbours(k: int) -> Neighbours:
    return knn(laser()["src"], laser()["tgt"], k)


@pytest.mark.parametrize("k", [4, 16])
@pytest.mark.parametrize("kind", ["ratio", "distance", "absolute"])
@pytest.mark.parametrize("retrieval", ["max", "intersect"])
def test_pairs_are_lasers(retrieval: str, kind: str, k: int) -> None:
    settings = MineSettings(margin=kind, retrieval=retrieval)
    pairs, least = match(laser_neighbours(k), settings), least_of(settings)
    pairs = pairs if least is None else pairs.take(slice(pairs.count_above(least)))
    ours = dict(zip(pairs_of(pairs), pairs.scores.tolist(), strict=True))
    theirs = laser_mined(retrieval, kind, k)
    assert ours.keys() == theirs.keys()
    assert max(abs(ours[pair] - theirs[pair]) for pair in theirs) < 1e-6
    in_our_order = [theirs[pair] for pair in ours]
    assert all(a >= b - 1e-6 for a, b in pairwise(in_our_order))


def random_neighbours(seed: int, rows: int, columns: int, dim: int = 3) -> Neighbours:
    """Few dimensions and whole numbers: many equal cosines."""
    rng = np.random.default_rng(seed)
    x, y = rng.integers(-1, 2, (rows, dim)), rng.integers(-1, 2, (columns, dim))
    return knn(x.astype(np.float32), y.astype(np.float32), 4)


def pairs_of(found: Candidates) -> list[tuple[int, int]]:
    return list(zip(found.source.tolist(), found.target.tolist(), strict=True))


@given(
    seed=st.integers(0, 2**32 - 1),
    rows=st.integers(1, 40),
    columns=st.integers(1, 40),
    kind=st.sampled_from(sorted(MARGINS)),
)
def test_max_is_one_to_one_and_greedy(seed: int, rows: int, columns: int, kind: str) -> None:
    neighbours = random_neighbours(seed, rows, columns)
    found = match(neighbours, MineSettings(margin=kind))
    assert len(set(found.source.tolist())) == len(set(found.target.tolist())) == len(found)
    forward, backward = (
        match(neighbours, MineSettings(margin=kind, retrieval=each)) for each in ("forward", "backward")
    )
    taken = {pair: score for pair, score in zip(pairs_of(found), found.scores.tolist(), strict=True)}
    by_source = {i: score for (i, _), score in taken.items()}
    by_target = {j: score for (_, j), score in taken.items()}
    for candidates in (forward, backward):
        for (i, j), score in zip(pairs_of(candidates), candidates.scores.tolist(), strict=True):
            blocking = max(by_source.get(i, -np.inf), by_target.get(j, -np.inf))
            assert (i, j) in taken or blocking >= score


@given(seed=st.integers(0, 2**32 - 1), rows=st.integers(1, 30), columns=st.integers(1, 30))
def test_every_retrieval_is_sorted_and_intersect_is_in_both(seed: int, rows: int, columns: int) -> None:
    neighbours = random_neighbours(seed, rows, columns)
    found = {retrieval: match(neighbours, MineSettings(retrieval=retrieval)) for retrieval in RETRIEVALS}
    for candidates in found.values():
        keys = list(zip(-candidates.scores, candidates.source, candidates.target, strict=True))
        assert keys == sorted(keys)
        assert not np.isnan(candidates.scores).any()
    both = set(pairs_of(found["forward"])) & set(pairs_of(found["backward"]))
    assert set(pairs_of(found["intersect"])) == both
    assert len(found["forward"]) == rows and len(found["backward"]) == columns


def test_a_better_pair_claims_its_rows() -> None:
    """Also where both are worse than nothing: x0-y0 is worse than x0-y1."""
    neighbours = Neighbours(
        forward_scores=np.array([[-0.1, -0.2]], np.float32),
        forward_ids=np.array([[1, 0]]),
        backward_scores=np.array([[-0.2], [-0.1]], np.float32),
        backward_ids=np.array([[0], [0]]),
    )
    assert pairs_of(match(neighbours, MineSettings(margin="absolute"))) == [(0, 1)]
    assert pairs_of(match(neighbours, MineSettings(margin="absolute", retrieval="intersect"))) == [(0, 1)]


def test_rows_left_out_are_in_no_pair() -> None:
    rng = np.random.default_rng(5)
    x = rng.standard_normal((20, 4)).astype(np.float32)
    keep = np.arange(20) % 3 > 0
    neighbours = knn(x, x, 2, keep_x=keep, keep_y=keep)
    for retrieval in RETRIEVALS:
        found = match(neighbours, MineSettings(margin="absolute", retrieval=retrieval))
        rows = [set(side.tolist()) for side in (found.source, found.target)]
        assert rows == [set(np.flatnonzero(keep).tolist())] * 2
        assert len(found) == 13 or retrieval == "all"


def test_one_empty_side_gives_no_pairs() -> None:
    neighbours = knn(np.ones((3, 2), np.float32), np.ones((2, 2), np.float32), 4, keep_y=np.zeros(2, bool))
    for retrieval in RETRIEVALS:
        assert len(match(neighbours, MineSettings(retrieval=retrieval))) == 0


def everything(neighbours: Neighbours, kind: str) -> dict[tuple[int, int], tuple[float, float]]:
    """(margin, cosine) of every candidate, in plain Python."""
    forward, backward = means(neighbours)
    found = {}
    for i, (row, scores) in enumerate(zip(neighbours.forward_ids, neighbours.forward_scores, strict=True)):
        found |= {(i, int(j)): c for j, c in zip(row, scores, strict=True) if j >= 0}
    for j, (row, scores) in enumerate(zip(neighbours.backward_ids, neighbours.backward_scores, strict=True)):
        found |= {(int(i), j): c for i, c in zip(row, scores, strict=True) if i >= 0}
    return {
        (i, j): (float(margin(c, forward[i], backward[j], kind)), float(c)) for (i, j), c in found.items()
    }


@given(
    seed=st.integers(0, 2**32 - 1),
    rows=st.integers(1, 30),
    columns=st.integers(1, 30),
    kind=st.sampled_from(sorted(MARGINS)),
)
def test_all_is_every_neighbour_once(seed: int, rows: int, columns: int, kind: str) -> None:
    neighbours = random_neighbours(seed, rows, columns)
    found, wanted = (
        match(neighbours, MineSettings(margin=kind, retrieval="all")),
        everything(neighbours, kind),
    )
    both = zip(found.scores.tolist(), found.cosines.tolist(), strict=True)
    assert len(found) == len(wanted) and dict(zip(pairs_of(found), both, strict=True)) == wanted


@given(
    seed=st.integers(0, 2**32 - 1),
    rows=st.integers(1, 40),
    columns=st.integers(1, 40),
    sizes=st.tuples(*[st.integers(1, 50)] * 4),
    kind=st.sampled_from(sorted(MARGINS)),
    retrieval=st.sampled_from(sorted(RETRIEVALS)),
)
def test_blocks_do_not_show(
    seed: int,
    rows: int,
    columns: int,
    sizes: tuple[int, int, int, int],
    kind: str,
    retrieval: str,
) -> None:
    neighbours = random_neighbours(seed, rows, columns)
    settings = MineSettings(margin=kind, retrieval=retrieval)
    whole = match(neighbours, settings)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lists, "BLOCK_ROWS", sizes[0])
        patch.setattr(spool, "BUFFER", sizes[1] * PAIR.itemsize)
        patch.setattr(spool, "GATHERED", sizes[2])
        patch.setattr(module, "_ENTRIES", 16 * sizes[3])
        patch.setattr(taking, "COMPILED_FROM", 1)
        blocks = match(neighbours, settings)
    for name in ("scores", "source", "target", "cosines"):
        ours, theirs = (np.asarray(getattr(pairs, name)) for pairs in (whole, blocks))
        assert ours.dtype == theirs.dtype and ours.tobytes() == theirs.tobytes()


def test_a_long_chain_is_decided_as_one_by_one() -> None:
    """Every pair is worse than the next one, so only the last is the best of both its rows."""
    count = 300
    scores = np.linspace(0.1, 0.9, 2 * count, dtype=np.float32)
    forward = np.arange(count), np.arange(count), scores[0::2]
    backward = (np.arange(count) + 1) % (count + 1), np.arange(count), scores[1::2]
    neighbours = Neighbours(
        forward_scores=np.append(forward[2], 0)[:, None].astype(np.float32),
        forward_ids=np.append(forward[1], -1)[:, None],
        backward_scores=backward[2][:, None],
        backward_ids=backward[0][:, None],
    )
    found = match(neighbours, MineSettings(margin="absolute"))
    assert sorted(pairs_of(found)) == [(i + 1, i) for i in range(count)]
