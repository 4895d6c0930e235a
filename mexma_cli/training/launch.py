"""Start the processes of a run on this machine, as torchrun does, and say how they ended."""

from __future__ import annotations

import logging
import os
import signal
import sys
import uuid
from collections.abc import Sequence

from torch.distributed.elastic.multiprocessing import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from mexma_cli.errors import MexmaError

PATIENCE = 120
"""Seconds that processes have to write a checkpoint after a signal, or to notice that another has died."""
_PARENTS = (
    "MEXMA_TRAIN_NPROC_PER_NODE",
    "MEXMA_TRAIN_MAX_RESTARTS",
    "MEXMA_TRAIN_PROCESSES",
    "MEXMA_TRAIN_RESTARTS",
)
"""What the environment may say to the first process and not to those that it starts."""


def launch(arguments: Sequence[str], processes: int, restarts: int) -> int:
    """Run `mexma ARGUMENTS` in several processes that train together, and wait for them.

    Args:
        processes: A GPU each, or a share of the processor's cores.
        restarts: So often all of them are started again, from the last checkpoint, after one has died.

    Returns:
        The exit code: 0, or 128 and the signal's number after SIGTERM or Ctrl-C.

    Raises:
        MexmaError: A process failed or was killed, and no restart is left.
    """
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // processes)))
    for name in _PARENTS:
        os.environ.pop(name, None)
    logging.getLogger("torch.distributed").setLevel(logging.ERROR)  # its reports repeat what a process said
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
    )
    try:
        elastic_launch(config, sys.executable)("-m", "mexma_cli", *arguments)
    except SignalException as error:
        return 128 + int(error.sigval)
    except ChildFailedError as error:
        rank, failure = error.get_first_failure()
        code = failure.exitcode
        if code in (128 + signal.SIGTERM, 128 + signal.SIGINT):
            return code  # the signal went to a process, not to this one
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"failed with exit code {code}"
        raise MexmaError(
            f"process {rank + 1} of {processes} {how}",
            "look above for what it said; --resume goes on from the last checkpoint",
        ) from None
    return 0
