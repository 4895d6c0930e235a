"""The processes of `prepare`: they import no transformers either."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

from mexma_cli.stages.prepare.corpora import Bitext
from mexma_cli.stages.prepare.language import LanguageWorker
from mexma_cli.stages.prepare.selection import PairSelection
from mexma_cli.stages.worker_pool import worker_pool

_here: LanguageWorker
"""The worker of a process of the pool."""


def language_pool(count: int, worker: LanguageWorker) -> AbstractContextManager[ProcessPoolExecutor]:
    """A pool of processes with a copy of `worker` in each, for `work_on`."""
    return worker_pool(count, _start, replace(worker, selections={}))


def _start(stopped: Callable[[], None], worker: LanguageWorker) -> None:
    """Make a process of the pool ready."""
    global _here
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # the processes are the parallelism
    _here = replace(worker, stopped=stopped)


def work_on(
    what: str, chain: list[Bitext], argument: Any, selections: dict[Path, PairSelection]
) -> tuple[Any, dict[str, list[Any]]]:
    """In a process of the pool: the result, and the checksums that are known now."""
    _here.selections = selections
    return getattr(_here, what)(chain, argument), chain[0].known
