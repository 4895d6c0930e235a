"""Units of work in processes of this machine, each with its share of the threads."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self

from mexma_cli.executors import RecipeExecutor
from mexma_cli.executors.worker import line_of
from mexma_cli.numerics.threads import threads
from mexma_cli.stages.run.executor import Ended

if TYPE_CHECKING:
    from mexma_cli.settings.corpus import CorpusRecipe

_PATIENCE = 10.0  # seconds that a worker has to end
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")


class LocalExecutor(RecipeExecutor):
    """So many processes (`jobs`) with so many threads each; each does one unit at a time, and keeps what it
    has loaded for the next."""

    name, about, is_here = "local", "on this machine", True

    def __init__(self, run: Path, jobs: int, threads: int) -> None:
        self._ended: queue.Queue[Ended] = queue.Queue()
        self._todo: queue.Queue[Path | None] = queue.Queue()
        self._workers = [_Worker(run, threads, place) for place in range(jobs)]
        self._stopped = False
        self._threads = [
            threading.Thread(target=self._serve, args=(worker,), daemon=True) for worker in self._workers
        ]
        for thread in self._threads:
            thread.start()

    @classmethod
    def from_recipe(cls, recipe: CorpusRecipe, folder: Path, jobs: int) -> Self:
        """`jobs` processes, which share the threads."""
        return cls(folder, jobs, max(1, threads() // jobs))

    @property
    def slots(self) -> int:
        """One for each process, and one that waits."""
        return 2 * len(self._workers)

    def submit(self, todo: Path) -> None:
        """Take a unit."""
        self._todo.put(todo)

    def ended(self, seconds: float) -> Sequence[Ended]:
        """The units that have ended; waits so long for one to end."""
        try:
            found = [self._ended.get(timeout=seconds)]
        except queue.Empty:
            return []
        while not self._ended.empty():
            found.append(self._ended.get())
        return found

    def stop(self) -> None:
        """End all processes."""
        self._stopped = True
        for _ in self._workers:
            self._todo.put(None)
        for worker in self._workers:
            worker.stop()
        for thread in self._threads:
            thread.join(_PATIENCE)

    def _serve(self, worker: _Worker) -> None:
        while (todo := self._todo.get()) is not None and not self._stopped:
            try:
                ended = worker.do(todo)
            except Exception as error:  # else the run would wait for this unit for ever
                ended = Ended(todo, f"no worker can be started: {error}", died=True)
            self._ended.put(ended)


class _Worker:
    """A process that does units, started when there is one to do, and again after it died."""

    def __init__(self, run: Path, threads: int, place: int) -> None:
        self._run, self._threads, self._place = run, threads, place
        self.process: subprocess.Popen[str] | None = None

    def do(self, todo: Path) -> Ended:
        process = self._started()
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(line_of(todo))
            process.stdin.flush()
            answer = process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if answer.endswith("\n"):
            said = json.loads(answer)
            return Ended(todo, said["error"], said["died"])
        self.process = None
        return Ended(todo, f"its worker died ({_how(process.wait())})", died=True)

    def stop(self) -> None:
        process = self.process  # which `do`, in another thread, forgets when it has died
        if process is None or process.poll() is not None:
            return
        process.terminate()
        until = time.monotonic() + _PATIENCE
        while process.poll() is None and time.monotonic() < until:
            time.sleep(0.05)
        if process.poll() is None:
            process.kill()
            process.wait()

    def _started(self) -> subprocess.Popen[str]:
        if self.process is None or self.process.poll() is not None:
            logs = self._run / "logs"
            logs.mkdir(exist_ok=True)
            program = [sys.executable, "-m", "mexma_cli.executors.worker", str(self._run.absolute())]
            with (logs / f"worker-{self._place:02d}.log").open("ab") as log:
                self.process = subprocess.Popen(
                    [*program, "--parent", str(os.getpid())],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    text=True,
                    env=os.environ | dict.fromkeys(_THREADS, str(self._threads)),
                    start_new_session=True,  # Ctrl-C is for the run, which ends its workers
                )
        return self.process


def _how(code: int) -> str:
    """Say in words how a process ended."""
    if code >= 0:
        return f"exit code {code}"
    name = signal.Signals(-code).name
    return f"{name}: out of memory?" if code == -signal.SIGKILL else name
