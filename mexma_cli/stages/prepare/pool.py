"""The processes of `prepare`. They import neither torch nor transformers, so that each stays small."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from mexma_cli.errors import MexmaError
from mexma_cli.stages.prepare.corpora import Bitext
from mexma_cli.stages.prepare.language import LanguageWorker
from mexma_cli.stages.prepare.selection import PairSelection

_here: LanguageWorker
"""The worker of a process of the pool."""


@contextmanager
def processes(count: int, worker: LanguageWorker) -> Iterator[ProcessPoolExecutor]:
    """A pool of processes with a copy of `worker` in each, for `work_on`.

    If the block is left early, those that still work take their temporary files away first; if this process
    is killed, they end.
    """
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    pool = ProcessPoolExecutor(count, context, _start, (replace(worker, selections={}), stop))
    try:
        yield pool
    finally:
        stop.set()
        pool.shutdown(wait=True, cancel_futures=True)


class _Stopped(Exception):
    """The run was ended from outside."""


def _start(worker: LanguageWorker, stop: Any) -> None:
    """Make a process of the pool ready."""
    global _here
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all; the first process tells the others
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # the processes are the parallelism

    def stopped() -> None:
        if stop.is_set():
            raise _Stopped

    _here = replace(worker, stopped=stopped)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def end_with_parent() -> None:
        multiprocessing.connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()


def work_on(
    what: str, chain: list[Bitext], argument: Any, selections: dict[Path, PairSelection]
) -> tuple[Any, dict[str, list[Any]]]:
    """In a process of the pool: the result, and the checksums that are known now."""
    _here.selections = selections
    return getattr(_here, what)(chain, argument), chain[0].known


def result(future: Future[Any]) -> Any:
    """The result of `work_on`.

    Raises:
        MexmaError: Its own, or that the process is gone.
    """
    try:
        return future.result()
    except BrokenProcessPool:
        raise MexmaError(
            "a process of `prepare` was killed from outside (is the memory full?)",
            "run it again with fewer --workers; the stores that were finished are kept",
        ) from None
