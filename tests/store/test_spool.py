from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mexma_cli.errors import MexmaError
from mexma_cli.store import spool
from mexma_cli.store.spool import Scattered, gathered
from tests.full_disk import full_temporary_disk


@given(data=st.data(), count=st.integers(1, 40), sizes=st.tuples(st.integers(1, 9), st.integers(1, 9)))
def test_values_are_put_and_looked_up_in_any_order(
    data: st.DataObject, count: int, sizes: tuple[int, int]
) -> None:
    places = st.lists(st.tuples(st.integers(0, count - 1), st.integers(-9, 9)), max_size=20)
    wanted = np.full(count, -10)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spool, "_SPAN", sizes[0])
        patch.setattr(spool, "GATHERED", sizes[1])
        found = Scattered(count, np.int64, -10)
        for part in data.draw(st.lists(places, max_size=4)):
            for place, value in part:
                wanted[place] = value
            found.put(*np.array(part, dtype=np.int64).reshape(-1, 2).T)
        assert found.array().tolist() == wanted.tolist()
        asked = np.array(data.draw(st.lists(st.integers(0, count - 1), min_size=2, max_size=9)))
        assert gathered(found.array(), asked[:, None]).tolist() == wanted[asked][:, None].tolist()


@full_temporary_disk
def test_a_full_temporary_disk_is_a_message() -> None:
    with pytest.raises(MexmaError, match="no space left for temporary files in"):
        Scattered(2, np.int64, 0).put(np.array([1]), np.array([2]))
