"""A process that does units of work: their files on stdin, a line each, and how they ended on stdout.

Started as ``python -m mexma_cli.executors.worker RUN``. It ends with its standard input, and with the process
that started it, also in the middle of a unit.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
import time
import traceback
from pathlib import Path

from mexma_cli.errors import MexmaError
from mexma_cli.stages.run.work import perform

log = logging.getLogger(__name__)

_SECONDS = 0.5  # between two looks at whether the parent is alive


def main() -> None:
    """Do units until there are no more."""
    parent = os.getppid()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever prints by mistake prints into the log
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", stream=sys.stderr)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    run = Path(sys.argv[1])
    for line in sys.stdin:
        todo = Path(line.rstrip("\n"))
        log.info("%s", todo)
        print(json.dumps(attempt(run, todo)), file=answers, flush=True)


def attempt(run: Path, todo: Path) -> dict[str, object]:
    """Do a unit; says what went wrong, and whether the worker or its machine is to blame."""
    try:
        perform(run, todo)
    except MexmaError as error:
        log.error("error: %s", error)
        return {"error": f"{error.message}{f' ({error.hint})' if error.hint else ''}", "died": False}
    except MemoryError:
        return {"error": "out of memory", "died": True}
    except Exception as error:
        traceback.print_exc()
        return {"error": f"{type(error).__name__}: {error}; its worker's log says where", "died": False}
    return {"error": None, "died": False}


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_SECONDS)
    os._exit(1)


if __name__ == "__main__":
    main()
