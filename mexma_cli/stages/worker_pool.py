"""Processes that work side by side. They import no torch, so that each stays small."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any

from mexma_cli.errors import MexmaError


class _Stopped(Exception):
    """The run was ended from outside."""


@contextmanager
def worker_pool(count: int, start: Callable[..., None], *arguments: Any) -> Iterator[ProcessPoolExecutor]:
    """A pool of processes, each of which `start` makes ready: it is called with a function that raises where
    the run was ended, and with `arguments`.

    If the block is left early, those that still work take their temporary files away first; if this process
    is killed, they end.
    """
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    pool = ProcessPoolExecutor(count, context, _start, (stop, start, arguments))
    try:
        yield pool
    finally:
        stop.set()
        pool.shutdown(wait=True, cancel_futures=True)


def _start(stop: Any, start: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all; the first process tells the others

    def stopped() -> None:
        if stop.is_set():
            raise _Stopped

    parent = multiprocessing.parent_process()
    assert parent is not None

    def end_with_parent() -> None:
        multiprocessing.connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()
    start(stopped, *arguments)


def result(future: Future[Any], command: str) -> Any:
    """The result of a process; its error is raised here, and where it is gone, that is said."""
    try:
        return future.result()
    except BrokenProcessPool:
        raise MexmaError(
            f"a process of `{command}` was killed from outside (is the memory full?)",
            "run it again with fewer --workers; what was finished is kept",
        ) from None
