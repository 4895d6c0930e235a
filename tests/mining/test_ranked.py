from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mexma_cli.mining import ranked
from mexma_cli.mining.ranked import ascending, spread

SCORES = st.lists(st.floats(-4, 4, width=32), min_size=1, max_size=30)


@given(scores=SCORES, most=st.integers(1, 12), size=st.integers(1, 9))
def test_some_distinct_scores_are_spread_over_all(scores: list[float], most: int, size: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranked, "_AT_ONCE", size)
        rising = ascending(np.sort(np.array(scores, dtype=np.float32))[::-1])
        highest, lower = spread(rising, most)
    assert rising.tolist() == sorted(scores)
    distinct = sorted(set(scores), reverse=True)
    assert len(highest) == min(most, len(distinct)) and highest[0] == distinct[0]
    assert most == 1 or highest[-1] == distinct[-1]
    places = [distinct.index(score) for score in highest.tolist()]
    assert len(places) < 2 or np.ptp(np.diff(places)) <= 1
    assert lower.tolist() == [[*distinct, distinct[-1] - 1e-6][place + 1] for place in places]
