from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mexma_cli.errors import MexmaError
from mexma_cli.stages.mine import texts
from mexma_cli.stages.mine.texts import KeptTexts
from tests.full_disk import full_temporary_disk


@given(data=st.data(), block=st.integers(1, 9))
def test_gives_the_sentences_of_rows_in_any_order(data: st.DataObject, block: int) -> None:
    lines = data.draw(st.lists(st.text(st.characters(codec="utf-8"), max_size=9), min_size=1, max_size=30))
    rows = np.array(data.draw(st.lists(st.integers(0, len(lines) - 1))), dtype=np.int64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(texts, "_LINES", block)
        kept = KeptTexts(iter(lines), rows)
    assert kept.take(rows) == [lines[row] for row in rows]
    assert kept.take(rows[::-1]) == [lines[row] for row in rows[::-1]]


@full_temporary_disk
def test_a_full_temporary_disk_is_a_message() -> None:
    with pytest.raises(MexmaError, match="no space left for temporary files in"):
        KeptTexts(iter(["some text"]), np.array([0]))
