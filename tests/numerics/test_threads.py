"""Work in slices, side by side."""

from __future__ import annotations

import numpy as np

from mexma_cli.numerics.threads import in_blocks, in_slices


def test_a_slice_is_every_place_once(two_threads: None) -> None:
    seen = np.zeros(1001, dtype=int)

    def task(start: int, stop: int) -> None:
        seen[start:stop] += 1

    in_slices(1001, task)
    assert (seen == 1).all()
    in_slices(0, task)


def test_blocks_do_not_depend_on_the_threads(two_threads: None) -> None:
    seen = np.zeros(1001, dtype=int)
    sizes = []

    def task(block: slice) -> None:
        seen[block] += 1
        sizes.append(len(seen[block]))

    in_blocks(1001, 100, task)
    assert (seen == 1).all()
    assert sorted(sizes) == [1, *[100] * 10]
    in_blocks(0, 100, task)
    assert len(sizes) == 11
