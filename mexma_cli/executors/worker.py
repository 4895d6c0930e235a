"""A process that does units of work.

``python -m mexma_cli.executors.worker RUN`` takes their files on stdin, a line each (`line_of`), and says on
stdout how they ended. It ends with its standard input, and with the process that started it (``--parent``),
also in the middle of a unit. With ``--units FILE --task I --tasks N`` it does every N-th unit of a list, from
the I-th on, and says in a file for each how it ended (`ending_of`).
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
import threading
import time
import traceback
from pathlib import Path

from mexma_cli.errors import NoteFormatter, as_ours, in_a_line, is_defect, is_out_of_memory, message_lines
from mexma_cli.files import write_json_atomic

log = logging.getLogger(__name__)

_SECONDS = 0.5  # between two looks at whether the parent is alive


def main(run: Path, parent: int) -> None:
    """Do units until there are no more, or the parent is gone: it may be already."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever prints by mistake prints into the log
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    for line in sys.stdin:
        todo = Path(json.loads(line))
        log.info("%s", in_a_line(todo))
        print(json.dumps(attempt(run, todo)), file=answers, flush=True)


def listed(run: Path, units: Path, task: int, tasks: int) -> None:
    """Do every `tasks`-th unit of a list, from the one at place `task` on."""
    for line in units.read_text().splitlines()[task::tasks]:
        todo = Path(json.loads(line))
        log.info("%s", in_a_line(todo))
        write_json_atomic(ending_of(todo), attempt(run, todo))


def line_of(todo: Path) -> str:
    """The file of a unit as a line of a list; JSON keeps line breaks, and bytes that are not UTF-8."""
    return f"{json.dumps(str(todo))}\n"


def ending_of(todo: Path) -> Path:
    """The file in which a task says how a unit ended."""
    return todo.with_name(todo.name.replace(".todo.json", ".ended.json"))


def attempt(run: Path, todo: Path) -> dict[str, object]:
    """Do a unit; says what went wrong, and whether the worker or its machine is to blame."""
    from mexma_cli.stages.run.work import perform

    try:
        perform(run, todo)
    except Exception as error:
        if is_defect(error):
            traceback.print_exc()
        ours = as_ours(error)
        log.error("%s", "\n".join(message_lines(ours)))
        hint = "its worker's log says more" if is_defect(error) else ours.hint
        said = f"{ours.message}{f' ({hint})' if hint else ''}"
        return {"error": said, "died": is_out_of_memory(error)}
    return {"error": None, "died": False}


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_SECONDS)
    os._exit(1)


if __name__ == "__main__":
    notes = logging.StreamHandler(sys.stderr)
    notes.setFormatter(NoteFormatter("%(asctime)s %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[notes])
    parser = argparse.ArgumentParser()
    parser.add_argument("run", type=Path)
    parser.add_argument("--parent", type=int, default=os.getppid())
    parser.add_argument("--units", type=Path)
    parser.add_argument("--task", type=int, default=0)
    parser.add_argument("--tasks", type=int, default=1)
    given = parser.parse_args()
    if given.units is None:
        main(given.run, given.parent)
    else:
        listed(given.run, given.units, given.task, given.tasks)
