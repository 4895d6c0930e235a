"""Work in slices, side by side."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Event

import numpy as np
import pytest

from mexma_cli.numerics.threads import ahead, in_blocks, in_slices


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


def test_an_item_is_made_while_the_one_before_is_in_use() -> None:
    made: list[int] = []
    asked = Event()

    def items() -> Iterator[int]:
        for number in range(3):
            made.append(number)
            if number == 1:
                asked.set()
            yield number
        raise ValueError("after the last")

    found = []
    with pytest.raises(ValueError, match="after the last"):
        for number in ahead(items()):
            assert number or asked.wait(10)  # the second is made before the first has been used
            found.append(number)
    assert found == made == [0, 1, 2]
