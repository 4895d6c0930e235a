"""One checkout as a process that runs commands for `same.py`, each in a fork: imports are done once.

It reads a job a line from stdin, as JSON (words, stdin, stdout, stderr, seconds: see `main`), in the folder
in which it was started, and answers each with a line: exit code, and seconds of the processor.
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import signal
import sys
import tempfile
import traceback
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

# What is imported here each process of a pool imports again.


def main() -> None:
    """Warm up, say so, and run jobs until stdin ends."""
    import mexma_cli

    assert Path(mexma_cli.__file__).is_relative_to(sys.argv[1]), mexma_cli.__file__
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    _warm()
    print("{}", file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(_run(json.loads(line))), file=answers, flush=True)


def _warm() -> None:
    """Import all modules, and mine a little: the same whatever the modules are called."""
    import torch

    import mexma_cli
    from mexma_cli.main import cli

    warnings.simplefilter("ignore")
    for _, name, _ in pkgutil.walk_packages(mexma_cli.__path__, "mexma_cli."):
        if not name.endswith("__main__"):
            with suppress(ImportError):
                importlib.import_module(name)
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder, "a.txt")
        text.write_text("Where is the station?\nOù est la gare ?\n", encoding="utf-8")
        command = ["-q", "mine", str(text), str(text), "-o", f"{folder}/pairs.tsv"]
        for more in ([], ["--memory", "4G"], ["--dtype", "bf16"]):
            with suppress(SystemExit):
                cli.main([*command, *more], prog_name="mexma")
    torch.set_num_threads(1)


def _run(job: dict[str, Any]) -> dict[str, Any]:
    child = os.fork()
    if child == 0:
        _child(job)
    _, status, used = os.wait4(child, 0)
    return {"code": os.waitstatus_to_exitcode(status), "seconds": used.ru_utime + used.ru_stime}


def _child(job: dict[str, Any]) -> NoReturn:
    """Run `mexma` and end; a command that takes too long is ended by SIGALRM."""
    from mexma_cli.main import cli

    code = 70
    try:
        signal.alarm(job["seconds"])
        files = [
            os.open(job["stdin"] or os.devnull, os.O_RDONLY),
            *(os.open(job[name], os.O_CREAT | os.O_WRONLY | os.O_TRUNC) for name in ("stdout", "stderr")),
        ]
        for number, file in enumerate(files):
            os.dup2(file, number)
            os.close(file)
        sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")  # noqa: SIM115
        sys.argv = ["mexma", *job["words"]]
        cli.main(job["words"], prog_name="mexma")
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
