"""Executors of `mexma run` whose workers' programs run in this process, where the shim sees what units do.

In place of processes, of Slurm's programs and of Ray stand what is below; all else is the executors' own.
"""

from __future__ import annotations

import importlib.util
import io
import itertools
import os
import pickle
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from mexma_cli.executors import local, slurm

WORKER = "mexma_cli.executors.worker"


def workers_in_this_process() -> None:
    """From here on, `--executor` local, slurm and ray do all units in this process."""
    loader = importlib.util.find_spec(WORKER).loader  # type: ignore[union-attr]
    program = loader.get_code(WORKER)  # type: ignore[union-attr]

    def work(words: Sequence[str], stdin: str = "") -> str:
        """`python -m mexma_cli.executors.worker WORDS`; what it wrote to stdout."""
        before = sys.argv, sys.stdin, os.dup(1)
        with tempfile.TemporaryFile() as said:
            os.dup2(said.fileno(), 1)
            sys.argv, sys.stdin = [WORKER, *words], io.StringIO(stdin)
            try:
                exec(program, {"__name__": "__main__"})
            finally:
                sys.argv, sys.stdin, out = before
                os.dup2(out, 1)
                os.close(out)
            said.seek(0)
            return said.read().decode()

    class Process(_Process):
        do = staticmethod(work)

    numbers = itertools.count(1)

    def of_slurm(words: Sequence[str], **_: Any) -> subprocess.CompletedProcess[str]:
        said = ""
        if words[0] == "sbatch":
            script = Path(words[-1]).read_text()
            (last,) = re.findall(r"^#SBATCH --array=0-(\d+)", script, re.MULTILINE)
            typed = shlex.split(script.partition("\nexec ")[2].replace("\\\n", " "))
            for task in range(int(last) + 1):
                work([word.replace("$SLURM_ARRAY_TASK_ID", str(task)) for word in typed[3:]])
            said = f"{next(numbers)}\n"
        return subprocess.CompletedProcess(words, 0, said, "")

    local.subprocess = SimpleNamespace(Popen=Process, PIPE=subprocess.PIPE)  # type: ignore[assignment]
    slurm.subprocess = SimpleNamespace(run=of_slurm)  # type: ignore[assignment]
    slurm.shutil = SimpleNamespace(which=lambda name: name)  # type: ignore[assignment]
    sys.modules["ray"] = _ray()


class _Process:
    """A worker of the local executor, which does a unit as soon as its line is there."""

    do: Callable[[Sequence[str], str], str]

    def __init__(self, words: Sequence[str], **_: Any) -> None:
        run, _, _ = words[3:]  # its parent is another one than here
        self._words, self._line, self._ended = [run], "", None
        self.stdin = self.stdout = self
        self.pid = os.getpid()

    def write(self, line: str) -> None:
        self._line = line

    def flush(self) -> None:
        self._line = self.do(self._words, self._line)

    def readline(self) -> str:
        return self._line

    def poll(self) -> int | None:
        return self._ended

    def terminate(self) -> None:
        self._ended = 0


def _ray() -> ModuleType:
    """As much of Ray as the executor uses; tasks are done when they are waited for."""
    ray = ModuleType("ray")
    ray.__spec__ = ModuleSpec("ray", None)

    class Task:
        """A call that is to be made; what it is given and gives back goes through pickle, as with Ray."""

        def __init__(self, function: Callable[..., Any], given: tuple[Any, ...]) -> None:
            self.function, self.given = function, pickle.dumps(given)

        def done(self) -> Any:
            return pickle.loads(pickle.dumps(self.function(*pickle.loads(self.given))))

    class Remote:
        def __init__(self, function: Callable[..., Any]) -> None:
            self.function = function

        def remote(self, *given: Any) -> Any:
            if isinstance(self.function, type):
                actor = self.function(*given)
                return SimpleNamespace(attempt=Remote(actor.attempt))
            return Task(self.function, given)

    vars(ray).update(
        init=lambda **_: SimpleNamespace(address_info={"session_dir": "here"}, dashboard_url=""),
        is_initialized=lambda: False,
        shutdown=lambda: None,
        remote=lambda **_: Remote,
        wait=lambda tasks, timeout: (tasks[:1], tasks[1:]),
        get=lambda task: task.done(),
        cancel=lambda task, force: None,
        kill=lambda actor: None,
        cluster_resources=lambda: {"CPU": 2, "GPU": 1},
        nodes=lambda: [{"Alive": True, "Resources": {"CPU": 2, "GPU": 1}}],
        exceptions=SimpleNamespace(RayError=ConnectionError),
    )
    return ray
