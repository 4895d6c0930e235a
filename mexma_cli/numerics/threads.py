"""Work on the processor's cores: a batch a thread, or parts of one task side by side."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import numpy as np
import torch

_PARALLEL_FROM = 1 << 22  # multiplications; below that a thread costs more than it brings
Item = TypeVar("Item")
Result = TypeVar("Result")
InOrder = Callable[[Callable[[Item], Result], Iterable[Item]], Iterator[Result]]


@contextmanager
def one_thread_each(threads: int) -> Iterator[InOrder]:
    """A `map` over that many threads, each with torch's operations on itself alone; results come in order.

    A result depends on its item only, not on the number of threads. What has not begun when the block is
    left with an error is dropped.
    """
    if threads == 1:
        yield map
        return
    before = torch.get_num_threads()
    pool = ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,))
    try:
        yield pool.map
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(before)  # the libraries below torch share one setting


def in_slices(count: int, task: Callable[[int, int], object], work: int = _PARALLEL_FROM) -> None:
    """Run `task(start, stop)` over [0, count), on as many threads as torch may use; Numba code is free of
    the interpreter's lock.

    Args:
        work: About how many multiplications there are in all.
    """
    if work < _PARALLEL_FROM or count < 2:
        task(0, count)
        return
    borders = np.linspace(0, count, torch.get_num_threads() + 1).astype(int).tolist()
    pieces = list(itertools.pairwise(borders))
    each(len(pieces), lambda piece: task(*pieces[piece]), work)


def each(count: int, task: Callable[[int], object], work: int = _PARALLEL_FROM) -> None:
    """Run `task(0)` to `task(count - 1)`, each on a thread of its own where there is enough work."""
    if count == 1 or work < _PARALLEL_FROM:
        for number in range(count):
            task(number)
        return
    others = [_pool(count - 1).submit(task, number) for number in range(1, count)]
    task(0)
    for other in others:
        other.result()


@functools.cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="mexma")
