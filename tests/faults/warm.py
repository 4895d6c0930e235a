"""The warm process: it has imported all that commands need, and forks a child for each of them.

`python -m tests.faults.warm` reads a job a line from stdin, as JSON, and answers each with a line. It runs
under LD_PRELOAD (shim.c) and on one thread, so that a fork loses nothing.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import logging
import math
import os
import pkgutil
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from contextlib import chdir, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any, NoReturn

import torch

from mexma_cli import commands, evaluation, executors, objectives, reporting, stages, training
from mexma_cli.main import cli
from tests.command import write
from tests.examples import demo_pairs
from tests.faults.commands import ALIGN, FILTER, KNN, MINE, PREPARE, RUN, SCORE, SPLIT, TUNE, A, B, inputs
from tests.faults.executors import workers_in_this_process

WARMING: tuple[tuple[str, ...], ...] = (
    *(A, B, MINE, KNN, ALIGN, TUNE, FILTER, SPLIT, SCORE, PREPARE, RUN),
    ("langid", "a.txt", "-o", "l.tsv"),
    ("export", "enc", "-o", "exported"),
)
LATE = (
    "fsspec.implementations.local",
    "ftfy",
    "matplotlib.backends.backend_svg",
    "pandas",
    "pyarrow.parquet",
)
"""What commands import when they write, or read, something that few do."""
NEVER = "mexma_cli.evaluation.mteb"
"""Imports as much as all else together, for what is measured on sets from the network."""


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    encoder, texts = sys.argv[1:]
    _import_all()
    _shrink(Path(texts))
    _use(Path(encoder))
    print("[]", file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(_run(json.loads(line))), file=answers, flush=True)


def _import_all() -> None:
    for room in (commands, stages, objectives, training, evaluation, reporting, executors):
        for _, name, is_package in pkgutil.walk_packages(room.__path__, f"{room.__name__}."):
            if not is_package and not name.startswith(NEVER):
                importlib.import_module(name)
    for name in LATE:
        importlib.import_module(name)


def _shrink(texts: Path) -> None:
    """Shards of 32 rows, small tiles and chunks, journals kept all the time: much to do for few lines.

    Args:
        texts: A folder for those of `mexma demo`, whose commands run in this process.
    """
    from mexma_cli.commands import demo
    from mexma_cli.knn import exact_search
    from mexma_cli.stages.split import inputs
    from mexma_cli.store import journal
    from mexma_cli.store.writer import EmbeddingWriter

    EmbeddingWriter.rows_per_shard = 32
    journal.SECONDS = journal._SHARE = 0  # type: ignore[assignment]
    exact_search.X_TILE = exact_search.Y_TILE = exact_search.X_ROWS = 64
    inputs.CHUNK = 2000
    workers_in_this_process()
    logging.getLogger().addHandler(logging.NullHandler())  # a worker's log goes nowhere
    texts.mkdir()
    pairs = [line.split("\t") for line in demo_pairs(60)]
    write(texts / "gold.tsv", *map("\t".join, pairs))
    for side, name in enumerate(("spa", "eng")):
        write(texts / f"{name}.txt", *sorted(pair[side] for pair in pairs))
    demo.shipped_texts = lambda: texts  # type: ignore[assignment]
    demo.subprocess = SimpleNamespace(run=lambda words: SimpleNamespace(returncode=_in_process(words[3:])))  # type: ignore[assignment]


def _in_process(words: list[str]) -> int:
    """The exit code of `mexma WORDS`."""
    try:
        cli.main(words, prog_name="mexma")
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    return 0


def _use(encoder: Path) -> None:
    """What is slow the first time, which each child would do again; no training, which starts threads."""
    from mexma_cli.text.repair import repair

    repair(["caf\u00c3\u00a9 &amp; t\u00e9"], Counter())
    with tempfile.TemporaryDirectory() as folder, chdir(folder), open(os.devnull, "w") as nowhere:
        inputs(Path(folder), encoder)
        for words in WARMING:
            with redirect_stdout(nowhere), redirect_stderr(nowhere):
                code = _in_process([*words])
            assert code == 0, words
    gc.collect()
    gc.freeze()  # or children copy all memory to look through it


def _run(job: dict[str, Any]) -> list[dict[str, Any]]:
    """How a command ended, as `running.Ended` has it; and one that ran beside it, if there is one.

    Of two, the first stops itself at an operation; then the second runs to its end, or to an operation of its
    own at which it stops until the first has ended, or until it has waited for the first for a moment.
    """
    first = _Run(job)
    if job["beside"] is None:
        return [first.end()]
    first.until_it_rests(math.inf)
    second = _Run(job | job["beside"])
    second.until_it_rests(job["patience"])
    first.go_on()
    ended = first.end()
    second.go_on()
    return [ended, second.end()]


class _Run:
    """A command in a child of this process."""

    def __init__(self, job: dict[str, Any]) -> None:
        self._job, self._said = job, [tempfile.TemporaryFile() for _ in range(2)]  # noqa: SIM115 - it writes there
        self._child = os.fork()
        if self._child == 0:
            _child(job, [file.fileno() for file in self._said])
        self._began, self._own, self._code, self._why = time.monotonic(), _megabytes(os.getpid()), None, ""

    def until_it_rests(self, seconds: float) -> None:
        """Wait until it has ended, or has stopped itself, or for so long."""
        limit, until = self._job["megabytes"], time.monotonic() + seconds
        while self._code is None and time.monotonic() < until:
            found, status = os.waitpid(self._child, os.WNOHANG | os.WUNTRACED)
            if found and os.WIFSTOPPED(status):
                return
            if found:
                self._code = os.waitstatus_to_exitcode(status)
                return
            time.sleep(0.002)
            peak, took = _megabytes(self._child) - self._own, time.monotonic() - self._began
            if not self._why and (took > self._job["seconds"] or peak > limit):
                self._why = f"{peak} MB" if peak > limit else f"{took:.0f} s"
                os.kill(self._child, signal.SIGKILL)

    def go_on(self) -> None:
        if self._code is None:
            os.kill(self._child, signal.SIGCONT)

    def end(self) -> dict[str, Any]:
        """Wait for its end."""
        self.until_it_rests(math.inf)
        left = _session(self._child)
        for process in left:
            os.kill(process, signal.SIGKILL)
        out, err = map(_read, self._said)
        return {"code": self._code, "out": out, "err": err, "beyond": self._why, "left": len(left)}


def _child(job: dict[str, Any], said: list[int]) -> NoReturn:
    """Run `mexma` and end."""
    code = 70
    try:
        os.setsid()
        os.chdir(job["folder"])
        os.environ["TMPDIR"], tempfile.tempdir = job["temporary"], None
        for number, file in enumerate((os.open(os.devnull, os.O_RDONLY), *said)):
            os.dup2(file, number)
        sys.stdin, sys.stdout = open(0), open(1, "w")  # noqa: SIM115
        sys.stderr = open(2, "w", errors="backslashreplace")  # noqa: SIM115 - as that of Python is
        sys.argv = ["mexma", *job["words"]]
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        torch.set_num_threads(job["threads"])
        fault_arm = ctypes.CDLL(None).fault_arm
        fault_arm.argtypes = [ctypes.c_char_p, ctypes.c_int, ctypes.c_long, ctypes.c_int, ctypes.c_char_p]
        if job["headroom"] is not None:
            top = int((_megabytes(os.getpid(), 0) + 1 + job["headroom"]) * (1 << 20))
            resource.setrlimit(resource.RLIMIT_AS, (top, top))
        fault_arm(os.fsencode(job["folder"]), job["fault"], job["at"], job["signal"], job["log"].encode())
        code = _in_process(job["words"])
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)


def _read(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


def _megabytes(process: int, which: int = 1) -> int:
    """What it holds in memory; with `which` 0 its address space."""
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[which]) * resource.getpagesize() >> 20
    except (OSError, IndexError):
        return 0


def _session(leader: int) -> list[int]:
    """The processes of a session, but those that have ended."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, _, session = stat.read_text().rpartition(") ")[2].split()[:4]
            if int(session) == leader and state != "Z":
                found.append(int(stat.parent.name))
    return found


if __name__ == "__main__":
    main()
