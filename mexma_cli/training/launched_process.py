"""For the processes that `training.launch` starts. It imports no torch, so that asking takes no time."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from pathlib import Path

from mexma_cli.errors import MexmaError

LAUNCHED = "MEXMA_LAUNCHED"
"""Is in the environment of such a process."""
_SECONDS = 0.5
"""Between two looks at whether the launcher is alive."""


def launched() -> bool:
    """Whether this process is one."""
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
