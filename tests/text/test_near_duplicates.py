"""Sentences that are nearly equal, however long they are."""

from __future__ import annotations

import numpy as np
import pytest

from mexma_cli.text.near_duplicates import Signatures


def test_of_a_line_of_megabytes_the_beginning_is_compared() -> None:
    pytest.importorskip("rensa")
    start = " ".join(map(str, range(20_000)))
    bands = Signatures(0.8).bands([start + "a" * (11 << 20), start + "b" * (11 << 20), start[::-1]])
    assert np.array_equal(bands[0], bands[1]) and not (bands[0] == bands[2]).any()
