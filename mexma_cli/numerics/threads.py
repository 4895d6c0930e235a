"""Threads on the processor: one batch a thread, or one task cut into parts."""

from __future__ import annotations

import functools
import itertools
import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import numpy as np

_PARALLEL_FROM = 1 << 22  # multiplications; for fewer, a thread costs more than it saves
_NONE = object()
Item = TypeVar("Item")
Result = TypeVar("Result")
InOrder = Callable[[Callable[[Item], Result], Iterable[Item]], Iterator[Result]]


def cores() -> int:
    """Cores of the processor that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def threads() -> int:
    """Threads that a task of ours takes: as many as torch, which need not be loaded for it."""
    if torch := sys.modules.get("torch"):
        return int(torch.get_num_threads())
    asked = os.environ.get("OMP_NUM_THREADS", "")
    return int(asked) if asked.isdecimal() and int(asked) else cores()


@contextmanager
def one_thread_each(number: int) -> Iterator[InOrder]:
    """A `map` over so many threads, on each of which torch runs single-threaded; results come in order.

    A result depends on its item only, not on the number of threads. If the block ends with an error, items
    that have not begun are dropped.
    """
    if number == 1:
        yield map
        return
    torch = sys.modules.get("torch")  # it need not be loaded for this
    if torch is None:
        with ThreadPoolExecutor(number) as pool:
            yield pool.map
        return
    before = torch.get_num_threads()
    pool = ThreadPoolExecutor(number, initializer=torch.set_num_threads, initargs=(1,))
    try:
        yield pool.map
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(before)  # the libraries below torch share one setting


def ahead(items: Iterable[Item], most: int = 1) -> Iterator[Item]:
    """The items, made on a thread of its own, at most so many ahead of the one in use."""
    with ThreadPoolExecutor(1) as pool:
        made = iter(items)
        following = deque(pool.submit(next, made, _NONE) for _ in range(most))
        while (item := following.popleft().result()) is not _NONE:
            following.append(pool.submit(next, made, _NONE))
            yield item  # pyrefly: ignore[invalid-yield]


def in_slices(count: int, task: Callable[[int, int], object], work: int = _PARALLEL_FROM) -> None:
    """Run `task(start, stop)` on slices of [0, count), on as many threads as `threads` says.

    Args:
        task: Should release the interpreter's lock, as compiled loops do.
        work: Approximate number of multiplications in all; little work is done on one thread.
    """
    if work < _PARALLEL_FROM or count < 2:
        task(0, count)
        return
    borders = np.linspace(0, count, threads() + 1).astype(int).tolist()
    pieces = list(itertools.pairwise(borders))
    each(len(pieces), lambda piece: task(*pieces[piece]), work)


def in_blocks(count: int, size: int, task: Callable[[slice], object], work: int = _PARALLEL_FROM) -> None:
    """Run `task` on all slices of `size` of [0, count), which the number of threads does not change.

    Args:
        task, work: As in `in_slices`.
    """

    def some(start: int, stop: int) -> None:
        for block in range(start, stop):
            task(slice(block * size, (block + 1) * size))

    in_slices(-(-count // size), some, work)


def each(count: int, task: Callable[[int], object], work: int = _PARALLEL_FROM) -> None:
    """Run `task(0)` to `task(count - 1)`, each on its own thread if there is enough work."""
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
