from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mexma_cli.errors import MexmaError
from mexma_cli.knn.exact import knn
from mexma_cli.mining.lists import sides_of
from mexma_cli.mining.margin import margin, means
from mexma_cli.mining.match import match
from mexma_cli.settings.stages import MineSettings
from mexma_cli.stages.mine import texts
from mexma_cli.stages.mine.texts import JoinedSide, KeptTexts, Ranks, ranks_in
from tests.full_disk import full_temporary_disk
from tests.mining.test_match import pairs_of


@given(data=st.data(), block=st.integers(1, 9))
def test_gives_the_sentences_of_rows_in_any_order(data: st.DataObject, block: int) -> None:
    lines = data.draw(st.lists(st.text(st.characters(codec="utf-8"), max_size=9), min_size=1, max_size=30))
    rows = np.array(data.draw(st.lists(st.integers(0, len(lines) - 1))), dtype=np.int64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(texts, "_LINES", block)
        kept = KeptTexts(iter(lines), rows)
    assert kept.take(rows) == [lines[row] for row in rows]
    assert kept.take(rows[::-1]) == [lines[row] for row in rows[::-1]]


@given(data=st.data(), sizes=st.tuples(st.integers(1, 9), st.integers(1, 9), st.integers(1, 9)))
def test_what_is_known_of_rows_comes_in_the_order_of_the_pairs(
    data: st.DataObject, sizes: tuple[int, int, int]
) -> None:
    lines = data.draw(st.lists(st.text(st.characters(codec="utf-8"), max_size=9), min_size=1, max_size=30))
    rows = np.array(data.draw(st.lists(st.integers(0, len(lines) - 1))), dtype=np.int64)
    others = np.arange(len(rows))[::-1]

    def look_up(own: np.ndarray, their: np.ndarray) -> Ranks:
        assert (np.diff(own) >= 0).all()
        return Ranks(own + their, 0.5 * own)

    with pytest.MonkeyPatch.context() as patch:
        for name, size in zip(("_LINES", "_PLACES", "_BUCKETS"), sizes, strict=True):
            patch.setattr(texts, name, size)
        side = JoinedSide(rows, others, iter(lines), look_up)
    for places in (np.arange(len(rows)), np.arange(len(rows))[::-2]):
        taken = side.take(places)
        assert taken.sentences == [lines[row] for row in rows[places]]
        assert taken.rank.tolist() == (rows + others)[places].tolist()
        assert taken.mean.tolist() == (0.5 * rows)[places].tolist()


@full_temporary_disk
def test_a_full_temporary_disk_is_a_message() -> None:
    with pytest.raises(MexmaError, match="no space left for temporary files in"):
        KeptTexts(iter(["some text"]), np.array([0]))
    with pytest.raises(MexmaError, match="no space left for temporary files in"):
        JoinedSide(np.array([0]), np.array([0]), iter(["some text"]))


def test_ranks_are_from_one_and_means_are_of_both_sides() -> None:
    rng = np.random.default_rng(3)
    x, y = (rng.standard_normal((n, 4)).astype(np.float32) for n in (12, 9))
    neighbours = knn(x, y, 3)
    found = match(neighbours, MineSettings(retrieval="all"))
    forward, backward = means(neighbours)
    lists = sides_of(neighbours)
    source_rank, source_mean = ranks_in(lists[0])(found.source, found.target)
    target_rank, target_mean = ranks_in(lists[1])(found.target, found.source)
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
