from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mexma_cli.errors import MexmaError
from mexma_cli.stages.mine import joined
from mexma_cli.stages.mine.joined import JoinedSide
from tests.full_disk import full_temporary_disk


@given(data=st.data(), sizes=st.tuples(st.integers(1, 9), st.integers(1, 9), st.integers(1, 9)))
def test_what_is_known_of_rows_comes_in_the_order_of_the_pairs(
    data: st.DataObject, sizes: tuple[int, int, int]
) -> None:
    lines = data.draw(st.lists(st.text(st.characters(codec="utf-8"), max_size=9), min_size=1, max_size=30))
    rows = np.array(data.draw(st.lists(st.integers(0, len(lines) - 1))), dtype=np.int64)
    others = np.arange(len(rows))[::-1]

    def known(own: np.ndarray, their: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        assert (np.diff(own) >= 0).all()
        return own + their, 0.5 * own

    with pytest.MonkeyPatch.context() as patch:
        for name, size in zip(("_LINES", "_PLACES", "_BUCKETS"), sizes, strict=True):
            patch.setattr(joined, name, size)
        side = JoinedSide(rows, others, len(lines), iter(lines), known)
    for places in (np.arange(len(rows)), np.arange(len(rows))[::-2]):
        beside = side.take(places)
        assert beside.sentences == [lines[row] for row in rows[places]]
        assert beside.rank.tolist() == (rows + others)[places].tolist()
        assert beside.mean.tolist() == (0.5 * rows)[places].tolist()


@full_temporary_disk
def test_a_full_temporary_disk_is_a_message() -> None:
    with pytest.raises(MexmaError, match="no space left for temporary files in"):
        JoinedSide(np.array([0]), np.array([0]), 1, iter(["some text"]))
