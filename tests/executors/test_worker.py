"""What a worker says of a unit that it could not do."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mexma_cli.errors import MexmaError
from mexma_cli.executors.worker import attempt

UNREADABLE = OSError(errno.EIO, os.strerror(errno.EIO), "fra.txt")


@pytest.mark.parametrize(
    ("error", "said", "died"),
    [
        (MexmaError("fra.txt: no lines", "give another"), "fra.txt: no lines (give another)", False),
        (UNREADABLE, "fra.txt: Input/output error (the disk or the network to it fails", False),
        (MemoryError(), "not enough memory (end other programs", True),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), "not enough memory: Cannot allocate", True),
        (RuntimeError("can't start new thread"), "not enough memory: can't start new thread", True),
        (RuntimeError("a bug"), "RuntimeError in mexma_cli.executors.worker, line ", False),
    ],
)
def test_a_unit_that_fails_says_why(
    error: Exception, said: str, died: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The machine is to blame for too little memory: another try may do."""

    def perform(*_: Path) -> None:
        raise error

    monkeypatch.setattr("mexma_cli.stages.run.work.perform", perform)
    found = attempt(Path("run"), Path("unit.todo.json"))
    assert str(found["error"]).startswith(said.split(" (")[0]) and said in str(found["error"])
    assert found["died"] is died
    assert caplog.messages[0].startswith(f"error: {said.split(' (')[0]}")


def test_the_traceback_of_a_defect_is_in_the_log(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def perform(*_: Path) -> None:
        raise AssertionError("a bug")

    monkeypatch.setattr("mexma_cli.stages.run.work.perform", perform)
    found = attempt(Path("run"), Path("unit.todo.json"))
    assert str(found["error"]).endswith(": a bug (its worker's log says more)")
    assert "in perform" in capsys.readouterr().err


def test_a_worker_whose_parent_was_killed_before_it_looked_does_nothing(tmp_path: Path) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    program = [sys.executable, "-m", "mexma_cli.executors.worker", tmp_path, "--parent", str(gone.pid)]
    with subprocess.Popen(program, stdin=subprocess.PIPE) as left:
        assert left.wait(60) == 1, "its standard input is still open"
