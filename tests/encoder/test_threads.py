"""Work in slices, side by side."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from mexma_cli.encoder.threads import in_slices


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_a_slice_is_every_place_once(two_threads):
    seen = np.zeros(1001, dtype=int)

    def task(start: int, stop: int) -> None:
        seen[start:stop] += 1

    in_slices(1001, task)
    assert (seen == 1).all()
    in_slices(0, task)
