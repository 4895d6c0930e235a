"""Start the processes of a command on this machine, as torchrun does, and say how they ended; and what those
processes need. torch is imported only to start them, so that asking for one of them takes no time."""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mexma_cli.errors import MexmaError
from mexma_cli.numerics.threads import cores

if TYPE_CHECKING:
    from torch.distributed.elastic.multiprocessing.errors import ProcessFailure

LAUNCHED = "MEXMA_LAUNCHED"
"""Is in the environment of a process that `launch` started."""
PATIENCE = 120
"""Seconds that processes have to write a checkpoint after a signal, or to notice that another has died."""
_PARENTS = (
    "MEXMA_TRAIN_NPROC_PER_NODE",
    "MEXMA_TRAIN_MAX_RESTARTS",
    "MEXMA_TRAIN_PROCESSES",
    "MEXMA_TRAIN_RESTARTS",
)
"""Variables of the environment for the first process, and not for those that it starts."""
_SECONDS = 0.5  # between two looks at whether the launcher is alive


def launch(
    arguments: Sequence[str], processes: int, restarts: int, hint: str, most_threads: int | None = None
) -> int:
    """Run `mexma ARGUMENTS` in several processes that work together, and wait for them. Returns 0, or 128 and
    the signal's number after SIGTERM or Ctrl-C; refused, with a hint, if a process failed or was killed, and
    no restart is left.

    Args:
        processes: A GPU each, or a share of the processor's cores.
        restarts: So often all of them are started again after one has died.
        most_threads: Of a process, where its share of the cores is larger.
    """
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

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


def launched() -> bool:
    """Whether `launch` started this process."""
    return LAUNCHED in os.environ


def end_with_launcher() -> None:
    """End this process soon after torchrun, or the process that called `launch`, has been killed.

    Without it the processes of a killed launcher wait for one another, or work on beside those of the next
    one. A thread sees to it, so that a process that computes ends, too; files are left as after SIGKILL.

    A launcher puts what it starts into a session of its own. So the session's leader is the launcher's child,
    and this process is that child, or was started by it (`torchrun --no-python sh -c ...`).
    """
    if not launched() and "TORCHELASTIC_RUN_ID" not in os.environ:
        return
    child = os.getsid(0)
    launcher = _parent(child)

    def watch() -> None:
        gone = _has_no_store()  # killed before this process looked: the parent is another one already
        while not gone:
            time.sleep(_SECONDS)
            gone = _parent(child) != launcher
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _has_no_store() -> bool:
    """Whether nobody listens where the launcher keeps a store for its processes from before they start."""
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        return False
    try:
        socket.create_connection((os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))).close()
    except OSError as error:
        return isinstance(error, ConnectionRefusedError)
    return False


def _parent(process: int) -> int | None:
    """The number of a process's parent, another one once that has ended; None: the process itself has."""
    try:
        return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return None


def leave_error(error: MexmaError) -> None:
    """Leave an error to the process that called `launch`, which raises it as its own."""
    content = {"message": error.message, "hint": error.hint, "timestamp": int(time.time())}
    with open(os.environ["TORCHELASTIC_ERROR_FILE"], "w", encoding="utf-8") as file:
        json.dump(content, file)
