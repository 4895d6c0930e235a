"""Start the processes of a command on this machine, as torchrun does, and say how they ended."""

from __future__ import annotations

import logging
import os
import signal
import sys
import tempfile
import uuid
from collections.abc import Sequence
from typing import Any

from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from mexma_cli.errors import MexmaError
from mexma_cli.numerics.threads import cores
from mexma_cli.training.launched_process import LAUNCHED

PATIENCE = 120
"""Seconds that processes have to write a checkpoint after a signal, or to notice that another has died."""
_PARENTS = (
    "MEXMA_TRAIN_NPROC_PER_NODE",
    "MEXMA_TRAIN_MAX_RESTARTS",
    "MEXMA_TRAIN_PROCESSES",
    "MEXMA_TRAIN_RESTARTS",
)
"""Variables of the environment for the first process, and not for those that it starts."""


def launch(
    arguments: Sequence[str], processes: int, restarts: int, hint: str, most_threads: int | None = None
) -> int:
    """Run `mexma ARGUMENTS` in several processes that work together, and wait for them.

    Args:
        processes: A GPU each, or a share of the processor's cores.
        restarts: So often all of them are started again after one has died.
        hint: What to do after one has failed.
        most_threads: Of a process, where its share of the cores is larger.

    Returns:
        The exit code: 0, or 128 and the signal's number after SIGTERM or Ctrl-C.

    Raises:
        MexmaError: A process failed or was killed, and no restart is left.
    """
    own, work = dict(os.environ), tempfile.TemporaryDirectory(prefix="mexma-")
    threads = max(1, cores() // processes)
    os.environ.setdefault("OMP_NUM_THREADS", str(min(threads, most_threads or threads)))
    os.environ[LAUNCHED] = "1"
    for name in _PARENTS:
        os.environ.pop(name, None)
    for name in list(logging.root.manager.loggerDict):  # its reports repeat what a process said
        if name.startswith("torch.distributed"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=processes,
        run_id=uuid.uuid4().hex,
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        max_restarts=restarts,
        monitor_interval=0.5,
        shutdown_timeout=PATIENCE,
        logs_specs=DefaultLogsSpecs(log_dir=work.name),  # its own folder would stay after a signal
    )
    try:
        elastic_launch(config, sys.executable)("-m", "mexma_cli", *arguments)
    except SignalException as error:
        return 128 + int(error.sigval)
    except ChildFailedError as error:
        first = error.get_first_failure()
        # Of the others one may have ended only because of the first.
        rank, failure = next((one for one in error.failures.items() if _left_by(one[1])), first)
        if left := _left_by(failure):
            raise MexmaError(f"process {rank + 1} of {processes}: {left['message']}", left["hint"]) from None
        code = failure.exitcode
        if code in (128 + signal.SIGTERM, 128 + signal.SIGINT):
            return code  # the signal went to a process, not to this one
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"failed with exit code {code}"
        raise MexmaError(
            f"process {rank + 1} of {processes} {how}", f"look above for what it said; {hint}"
        ) from None
    finally:
        work.cleanup()
        os.environ.clear()
        os.environ.update(own)
    return 0


def _left_by(failure: ProcessFailure) -> dict[str, Any] | None:
    """The error that a process left by `leave_error`, if there is one."""
    return failure.error_file_data if "hint" in failure.error_file_data else None
