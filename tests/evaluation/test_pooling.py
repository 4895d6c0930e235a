"""The first token against the mean: the means that are compared."""

from __future__ import annotations

from pathlib import Path

import pytest

from mexma_cli.evaluation.pooling import PoolingData, pooling_result
from mexma_cli.evaluation.sts import means_of_known


def test_means_are_over_what_both_have_a_number_for(caplog: pytest.LogCaptureFixture) -> None:
    assert means_of_known([50.0, 60.0], [40.0, 20.0]) == (55.0, 30.0)
    assert means_of_known([50.0, None, 70.0], [40.0, 20.0, None]) == (50.0, 40.0)
    assert means_of_known([None], [1.0]) is None
    data = PoolingData(None, None, [], [Path("sts")])
    assert pooling_result(data, {"STS": [50.0]}, {"STS": [40.0]}, {}).rows[0]["change"] == 20.0
    assert not caplog.messages
    found = pooling_result(data, {"STS": [50.0, None, 70.0]}, {"STS": [40.0, 20.0, None]}, {"name": "x"})
    assert found.scores == {"STS CLS": 50.0, "STS uniform": 40.0}
    assert caplog.messages == ["STS: 2 sets are left out, where all cosines are equal"]
