"""Programs in processes of their own that need not import torch and transformers: forks of one that has.

For what a test can see only from outside: a process that is killed, stopped, or one of several. What a
program imports, and with which threads, is tested with `subprocess` itself.
"""

from __future__ import annotations

import multiprocessing
import os
import pkgutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

import pytest

from mexma_cli import commands, objectives

MEXMA = "import sys; from mexma_cli.main import cli; cli(sys.argv[1:], prog_name='mexma')"
"""The program `mexma`."""
IMPORTED = (
    "transformers.models.xlm_roberta.modeling_xlm_roberta",
    "transformers.convert_slow_tokenizer",
    "numba.cpython.randomimpl",
    "numba.np.npyimpl",
    "mexma_cli.evaluation.xsim",
    "mexma_cli.stages.train.train",
    "mexma_cli.stages.embed.embed",
    "mexma_cli.stages.mine.mine",
    *(part.name for part in pkgutil.walk_packages(commands.__path__, "mexma_cli.commands.")),
    *(part.name for part in pkgutil.walk_packages(objectives.__path__, "mexma_cli.objectives.")),
)
_forks = multiprocessing.get_context("forkserver")
_forks.set_forkserver_preload([*IMPORTED])


class Program:
    """A running Python program, used as a `subprocess.Popen` with text pipes is.

    Args:
        code: Python source; `sys.argv[1:]` are the arguments.
        folder: Where it runs.
        environment: Variables that differ from this process's.
    """

    store: Any = None
    """Where it finds the others; it is open as long as they are."""

    def __init__(
        self, code: str, *arguments: str | Path, folder: Path | None = None, **environment: str
    ) -> None:
        self._said = tempfile.TemporaryDirectory()
        command = (code, [*map(str, arguments)], folder or Path.cwd(), os.environ | environment)
        self._process = _forks.Process(target=_run, args=(*command, Path(self._said.name)))
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self.returncode

    def send_signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def wait(self, timeout: float = 120) -> int:
        """The exit code. Raises TimeoutExpired, and kills it with all that it started."""
        self._process.join(timeout)
        if self.returncode is None:
            os.killpg(self.pid, signal.SIGKILL)
            raise subprocess.TimeoutExpired("python", timeout)
        return self.returncode

    def until(self, done: Callable[[], bool]) -> None:
        """Wait for something that it does; that it ends before is a failure."""
        for _ in range(12_000):
            if done():
                return
            self._process.join(0.01)
            assert self.returncode is None or done(), self.communicate()
        raise AssertionError("what was waited for never came")

    def communicate(self, timeout: float = 120) -> tuple[str, str]:
        """Standard output and standard error, when it has ended."""
        self.wait(timeout)
        stdout, stderr = (Path(self._said.name, name).read_text() for name in ("1", "2"))
        return stdout, stderr


def _run(code: str, arguments: list[str], folder: Path, environment: dict[str, str], said: Path) -> None:
    os.setsid()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    tempfile.tempdir = None  # TMPDIR may be another now
    for number in (1, 2):
        os.dup2(os.open(said / str(number), os.O_WRONLY | os.O_CREAT, 0o600), number)
    sys.argv = ["-c", *arguments]
    exec(code, {"__name__": "__main__"})


def wait_until(done: Callable[[], bool]) -> None:
    """Wait for something that happens in another process."""
    for _ in range(12_000):
        if done():
            return
        time.sleep(0.01)
    raise AssertionError("what was waited for never came")


SLOW_STEPS = """
import time
from mexma_cli.training.trainer import Trainer
step = Trainer._one_step
def slow(self, given_up):
    time.sleep(0.05)
    return step(self, given_up)
Trainer._one_step = slow
"""
"""Before MEXMA: `train` has time enough between two steps to be hit."""
SMALL_SHARDS = """
from mexma_cli.store.writer import EmbeddingWriter
EmbeddingWriter.rows_per_shard = 16
"""
"""Before MEXMA: `embed` has several shards in a short text."""
KILLED_IN_A_SHARD = f"""{SMALL_SHARDS}
import os, signal
from mexma_cli.store.shard import OpenShard
close = OpenShard.close
def close_or_die(self, offset):
    if self._vectors_path.name == "vectors-00002.npy" and os.environ.get("RANK", "0") == "0":
        os.kill(os.getpid(), signal.SIGKILL)
    return close(self, offset)
OpenShard.close = close_or_die
"""
"""Before MEXMA: `embed`, or the first of its processes, is killed before its third shard is closed."""


def forks_of_launchers(patch: pytest.MonkeyPatch, before: str = "") -> list[Program]:
    """What launchers in this process start from here on are forks, too; the list has them as they come.

    Args:
        before: What they run before the program.
    """
    from torch.distributed.elastic.multiprocessing.subprocess_handler import SubprocessHandler

    started: list[Program] = []

    def start(_: SubprocessHandler, command: tuple[str, ...], environment: dict[str, str]) -> Program:
        assert command[:3] == (sys.executable, "-m", "mexma_cli")
        started.append(Program(before + MEXMA, *command[3:], **environment))
        return started[-1]

    patch.setattr(SubprocessHandler, "_popen", start)
    return started


def forks_of_pools(patch: pytest.MonkeyPatch) -> None:
    """Processes that work side by side for this one are forks, too: they need not import what it has."""
    forkserver.ensure_running()  # a pool would start it with Ctrl-C held back, also from what it forks later
    patch.setattr(multiprocessing, "get_context", lambda method: _forks)


def together(code: str, *arguments: str | Path, **environment: str) -> list[Program]:
    """The program in two processes that find one another as torchrun's do: by a store that outlives them."""
    from torch.distributed import TCPStore

    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.port), "WORLD_SIZE": "2"}
    both = environment | place | {"LOCAL_WORLD_SIZE": "2", "TORCHELASTIC_USE_AGENT_STORE": "True"}
    processes = [Program(code, *arguments, **both, RANK=rank, LOCAL_RANK=rank) for rank in "01"]
    for process in processes:
        process.store = store
    return processes


def in_two_processes(function: Callable[..., None], *arguments: object) -> None:
    """Call a function in two processes, with the number of the process before the arguments."""
    from torch.multiprocessing import start_processes

    start_processes(function, arguments, 2, start_method="forkserver")
