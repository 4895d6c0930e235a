"""The first token against the mean: what both are compared over."""

from __future__ import annotations

import pytest

from mexma_cli.evaluation.pooling import means_of_both


def test_means_are_over_what_both_have_a_number_for(caplog: pytest.LogCaptureFixture) -> None:
    assert means_of_both("STS", [50.0, 60.0], [40.0, 20.0]) == (55.0, 30.0)
    assert not caplog.messages
    assert means_of_both("STS", [50.0, None, 70.0], [40.0, 20.0, None]) == (50.0, 40.0)
    assert caplog.messages == ["warning: STS: all cosines of 2 sets are equal: left out"]
    assert means_of_both("STS", [None], [1.0]) is None
