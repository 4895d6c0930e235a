from __future__ import annotations

import errno
import os
import signal
import subprocess
from pathlib import Path

import pytest

from mexma_cli.executors.local import LocalExecutor, _Worker
from mexma_cli.stages.run.run import run_corpus
from tests.corpora import InThisProcess, corpus
from tests.executors.test_slurm import cuts
from tests.stages.run.test_run import files


def processes(executor: LocalExecutor) -> list[int]:
    """Those that are there now."""
    there = [worker.process for worker in executor._workers]
    return [process.pid for process in there if process and process.poll() is None]


def test_killed_workers_leave_the_same_bytes(tmp_path: Path, tiny_encoder: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    wanted = corpus(one, tiny_encoder)
    run_corpus(wanted, InThisProcess)
    recipe = corpus(two, tiny_encoder)
    killed: list[int] = []
    made: list[LocalExecutor] = []

    def executor(folder: Path) -> LocalExecutor:
        made.append(LocalExecutor(folder, jobs=1, threads=1))
        return made[0]

    def kill(progress: object) -> None:
        """When the first tile has been submitted, the only worker is at work."""
        if not killed and any("/tile/" in name for name in progress.running):  # type: ignore[attr-defined]
            killed.append(processes(made[0])[0])
            os.kill(killed[0], signal.SIGKILL)

    run_corpus(recipe, executor, on_change=kill)
    assert killed and not processes(made[0])
    assert files(recipe).keys() - files(wanted).keys() == {"logs/worker-00.log"}
    assert {name: held for name, held in files(recipe).items() if "logs" not in name} == files(wanted)


def test_a_run_may_have_any_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = Path("-x\n\udcff")
    folder.mkdir()
    todo = cuts(folder, 1)
    executor = LocalExecutor(folder / "run", jobs=1, threads=1)
    executor.submit(todo[0])
    while not (ended := executor.ended(1.0)):
        pass
    executor.stop()
    assert ended[0].todo == todo[0] and "no lines" in str(ended[0].error) and not ended[0].died


def test_where_no_worker_can_be_started_the_run_does_not_wait_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*_: object, **__: object) -> None:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(subprocess, "Popen", none)
    todo = cuts(tmp_path, 1)
    executor = LocalExecutor(tmp_path / "run", jobs=1, threads=1)
    executor.submit(todo[0])
    (ended,) = executor.ended(60.0)
    executor.stop()
    assert ended.died and "no worker can be started" in str(ended.error)


def test_a_worker_that_is_at_work_is_stopped(tmp_path: Path) -> None:
    """Its thread forgets the process as soon as it has died, while the other one still looks at it."""
    worker = _Worker(tmp_path, threads=1, place=0)

    class Dying:
        def poll(self) -> int | None:
            return None if worker.process else -signal.SIGTERM

        def terminate(self) -> None:
            worker.process = None

    worker.process = Dying()  # type: ignore[assignment]
    worker.stop()
    assert worker.process is None
