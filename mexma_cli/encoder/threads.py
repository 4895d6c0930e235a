"""Work on the processor's cores, one batch a thread: no waiting for one another inside a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import torch

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


def side_by_side(work: Callable[[int], None], parts: int) -> None:
    """Call `work` with 0 to parts - 1, on as many threads as torch has. It lets others run (nogil)."""
    threads = min(torch.get_num_threads(), parts)
    if threads == 1:
        for part in range(parts):
            work(part)
        return
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, range(parts)))
