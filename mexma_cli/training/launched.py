"""For the processes that `training.launch` starts. It imports no torch, so that asking takes no time."""

from __future__ import annotations

import json
import os
import time

from mexma_cli.errors import MexmaError

LAUNCHED = "MEXMA_LAUNCHED"
"""Is in the environment of such a process."""


def launched() -> bool:
    """Whether this process is one."""
    return LAUNCHED in os.environ


def leave_error(error: MexmaError) -> None:
    """Leave an error to the process that called `launch`, which raises it as its own."""
    content = {"message": error.message, "hint": error.hint, "timestamp": int(time.time())}
    with open(os.environ["TORCHELASTIC_ERROR_FILE"], "w", encoding="utf-8") as file:
        json.dump(content, file)
