from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mexma_cli.knn.exact import knn
from mexma_cli.mining.margin import MARGINS, margin, means
from mexma_cli.mining.match import RETRIEVALS, match
from mexma_cli.stages.mine import blockwise
from mexma_cli.stages.mine.blockwise import both_in_memory, match_lists
from mexma_cli.stages.mine.joined import known_in
from mexma_cli.store import spool
from tests.mining.test_match import pairs_of, random_neighbours


@settings(max_examples=80)
@given(
    seed=st.integers(0, 2**32 - 1),
    sides=st.tuples(st.integers(1, 40), st.integers(1, 40)),
    sizes=st.tuples(st.integers(1, 50), st.integers(1, 50), st.integers(1, 50)),
    kind=st.sampled_from(sorted(MARGINS)),
    retrieval=st.sampled_from([name for name in RETRIEVALS if name != "all"]),
    threshold=st.sampled_from([None, 0.0, 0.9]),
)
def test_pairs_in_blocks_of_any_size_are_those_in_memory(
    seed: int,
    sides: tuple[int, int],
    sizes: tuple[int, int, int],
    kind: str,
    retrieval: str,
    threshold: float | None,
) -> None:
    neighbours = random_neighbours(seed, *sides)
    wanted = match(neighbours, kind, retrieval, threshold)
    with pytest.MonkeyPatch.context() as patch:
        for name, size in zip(("BLOCK_ROWS", "_BUFFERED"), sizes, strict=False):
            patch.setattr(blockwise, name, size)
        patch.setattr(spool, "GATHERED", sizes[2])
        found = match_lists(both_in_memory(neighbours), kind, retrieval, threshold)
    for name in ("scores", "source", "target", "cosines", "below"):
        ours, theirs = (np.asarray(getattr(pairs, name)) for pairs in (found, wanted))
        assert ours.dtype == theirs.dtype and ours.tobytes() == theirs.tobytes()


def test_ranks_are_from_one_and_means_are_of_both_sides() -> None:
    rng = np.random.default_rng(3)
    x, y = (rng.standard_normal((n, 4)).astype(np.float32) for n in (12, 9))
    neighbours = knn(x, y, 3)
    found = match(neighbours, "ratio", "all")
    forward, backward = means(neighbours)
    lists = both_in_memory(neighbours)
    source_rank, source_mean = known_in(lists[0])(found.source, found.target)
    target_rank, target_mean = known_in(lists[1])(found.target, found.source)
    for place, (i, j) in enumerate(pairs_of(found)):
        for rank, ids, wanted in (
            (source_rank[place], neighbours.forward_ids[i].tolist(), j),
            (target_rank[place], neighbours.backward_ids[j].tolist(), i),
        ):
            assert rank == (ids.index(wanted) + 1 if wanted in ids else 0)
    np.testing.assert_array_equal(source_mean, forward[found.source])
    np.testing.assert_array_equal(target_mean, backward[found.target])
    assert {0, 1, 2, 3} == set(source_rank.tolist()) == set(target_rank.tolist())
    assert margin(found.cosines, source_mean, target_mean).tolist() == found.scores.tolist()
