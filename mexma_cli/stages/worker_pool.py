"""Processes that work side by side. They import no torch, so that each stays small."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import chain, islice
from typing import Any, TypeVar

from mexma_cli.errors import MexmaError

Key = TypeVar("Key")
Result = TypeVar("Result")


class _Stopped(Exception):
    """The run was ended from outside."""


def in_processes(
    count: int,
    work: Callable[..., Result],
    items: Iterable[tuple[Key, tuple[Any, ...]]],
    in_order: bool = False,
) -> Generator[tuple[Key, Result]]:
    """Call `work` with the arguments of each item, in so many processes, or here if one is enough; yields the
    key of each item, which stays here, and the result, as they end or in the items' order.

    Each process has a copy of `work`, made when it starts. Where there are several, at most `2 * count` items
    have been taken whose results have not. An error is raised here; a process that was killed is refused. If
    the generator is closed early, those that still work take their temporary files away first; if this
    process is killed, they end.
    """
    items = iter(items)
    first = list(islice(items, 2)) if count > 1 else []
    if len(first) < 2:  # for a single item no process has to start
        for key, arguments in chain(first, items):
            yield key, work(*arguments)
        return
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    pool = ProcessPoolExecutor(count, context, _start, (stop, work))
    waiting: dict[Future[Result], Key] = {}
    try:
        for key, arguments in chain(first, items):
            with _uninterrupted():  # this may start a process
                future = pool.submit(_result, *arguments)
            waiting[future] = key
            if len(waiting) == 2 * count:
                yield from _ended(waiting, in_order)
        while waiting:
            yield from _ended(waiting, in_order)
    except BrokenProcessPool:
        raise MexmaError(
            "one of the processes was killed from outside (is the memory full?)",
            "run it again with fewer --workers",
        ) from None
    finally:
        stop.set()
        pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Hold Ctrl-C back while the block runs. A process that starts in it gets none, from its first moment."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _ended(waiting: dict[Future[Result], Key], in_order: bool) -> Generator[tuple[Key, Result]]:
    """Wait for the first item, or for any, and take out what has ended."""
    first = [next(iter(waiting))]
    for future in first if in_order else wait(waiting, return_when=FIRST_COMPLETED).done:
        yield waiting.pop(future), future.result()


_here: Callable[..., Any]
"""The work of a process of the pool."""
_stop: Any = None


def _start(stop: Any, work: Callable[..., Any]) -> None:
    global _here, _stop
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all; the first process tells the others
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # the processes are the parallelism
    _here, _stop = work, stop
    parent = multiprocessing.parent_process()
    assert parent is not None

    def end_with_parent() -> None:
        multiprocessing.connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()


def _result(*arguments: Any) -> Any:
    """Do one piece of work in a process of the pool."""
    end_if_stopped()
    return _here(*arguments)


def end_if_stopped() -> None:
    """For work to call now and then: raises in a process of the pool where the run was ended."""
    if _stop is not None and _stop.is_set():
        raise _Stopped
