"""The warm process: it has imported all that commands need, and forks a child for each of them.

`python -m tests.faults.warm` reads a job a line from stdin, as JSON, and answers each with a line. It runs
under LD_PRELOAD (shim.c) and on one thread, so that a fork loses nothing.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import pkgutil
import resource
import signal
import sys
import tempfile
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, NoReturn

import torch

from mexma_cli import commands, objectives, stages, training
from mexma_cli.main import cli


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    encoder = sys.argv[1]
    _import_all()
    _shrink()
    _use(encoder)
    print("{}", file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(_run(json.loads(line))), file=answers, flush=True)


def _import_all() -> None:
    for room in (commands, stages, objectives, training):
        for _, name, is_package in pkgutil.walk_packages(room.__path__, f"{room.__name__}."):
            if not is_package:
                importlib.import_module(name)


def _shrink() -> None:
    """Shards of 32 rows, small tiles, journals kept all the time: much to do for few lines."""
    from mexma_cli.knn import small, sweep, tiles
    from mexma_cli.stages.embed.embed import embed_file
    from mexma_cli.stages.project.project import project
    from mexma_cli.store import journal
    from mexma_cli.store.writer import EmbeddingWriter

    for function in (embed_file, project, EmbeddingWriter.__init__):
        assert function.__kwdefaults__ is not None
        function.__kwdefaults__["rows_per_shard"] = 32
    journal.SECONDS = journal._SHARE = 0  # type: ignore[assignment]
    tiles.X_TILE, tiles.Y_TILE, tiles.PIECE, sweep.X_ROWS, small.WORK = 64, 64, 32, 64, 0


def _use(encoder: str) -> None:
    """What is slow the first time: compiled loops, transformers' model and its files, and a picture."""
    import numpy as np

    from mexma_cli.encoder.encoder import SentenceEncoder
    from mexma_cli.knn.exact import knn
    from mexma_cli.mining.match import match
    from mexma_cli.reporting.plot import draw_scores

    loaded = SentenceEncoder.load(encoder)
    loaded.embed(["Hola.", "Buenos días."])
    with tempfile.TemporaryDirectory() as folder:
        loaded.save(f"{folder}/encoder")
        draw_scores(Path(folder, "scores.png"), np.ones(2), np.ones(2), 1.0, "Scores")
    vectors = np.random.default_rng(0).normal(size=(200, 32)).astype(np.float32)
    match(knn(vectors, vectors[::-1].copy(), 4), "ratio", "max")


def _run(job: dict[str, Any]) -> dict[str, Any]:
    """How a command ended, as `running.Ended` has it."""
    said = [tempfile.TemporaryFile() for _ in range(2)]  # noqa: SIM115 - the child writes there
    child = os.fork()
    if child == 0:
        _child(job, [file.fileno() for file in said])
    began, own, peak, why = time.monotonic(), _megabytes(os.getpid()), 0, ""
    while not (ended := os.waitpid(child, os.WNOHANG))[0]:
        time.sleep(0.002)
        peak, seconds = max(peak, _megabytes(child) - own), time.monotonic() - began
        if not why and (seconds > job["seconds"] or peak > job["megabytes"]):
            why = f"{peak} MB" if peak > job["megabytes"] else f"{seconds:.0f} s"
            os.kill(child, signal.SIGKILL)
    left = _session(child)
    for process in left:
        os.kill(process, signal.SIGKILL)
    out, err = (_read(file) for file in said)
    code = os.waitstatus_to_exitcode(ended[1])
    return {"code": code, "out": out, "err": err, "beyond": why, "left": len(left)}


def _child(job: dict[str, Any], said: list[int]) -> NoReturn:
    """Run `mexma` and end."""
    code = 70
    try:
        os.setsid()
        os.chdir(job["folder"])
        os.environ["TMPDIR"], tempfile.tempdir = job["temporary"], None
        for number, file in enumerate((os.open(os.devnull, os.O_RDONLY), *said)):
            os.dup2(file, number)
        sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")  # noqa: SIM115
        sys.argv = ["mexma", *job["words"]]
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        torch.set_num_threads(job["threads"])
        fault_arm = ctypes.CDLL(None).fault_arm
        fault_arm.argtypes = [ctypes.c_char_p, ctypes.c_int, ctypes.c_long, ctypes.c_int, ctypes.c_char_p]
        fault_arm(os.fsencode(job["folder"]), job["fault"], job["at"], job["signal"], job["log"].encode())
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


def _read(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


def _megabytes(process: int) -> int:
    """What it holds in memory."""
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * resource.getpagesize() >> 20
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
