"""Runs of `mexma` under faults: a job for the warm process (warm.py), and what came of it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent.parent


class Fault(IntEnum):
    """What happens at an operation on a file, as in shim.c."""

    NONE = 0
    KILL = 1
    """SIGKILL instead of it."""
    TORN = 2
    """Half of a write, then SIGKILL."""
    FULL = 3
    """The disk is full, now and from here on."""
    ERROR = 4
    """The disk fails, once (EIO)."""
    SHORT = 5
    """A write writes half of it and says so, which is no error."""
    SIGNAL = 6
    """A signal that can be caught comes."""
    CLOCK = 7
    """The clock goes back by a day."""


@dataclass(frozen=True)
class Ended:
    """How a command ended.

    Attributes:
        code: Exit code; of a process that a signal ended, minus its number.
        beyond: The time or memory that it took beyond its limits; then it was killed.
        left: How many processes outlived it.
    """

    code: int
    out: str
    err: str
    beyond: str
    left: int

    @property
    def killed(self) -> bool:
        return self.code == -signal.SIGKILL

    def plain(self) -> None:
        """It ended by itself or was killed, said in a line what is wrong, and left nobody."""
        assert not self.beyond, f"stopped after {self.beyond}"
        for defect in ("Traceback", "a defect of mexma"):
            assert defect not in self.err, "\n".join(self.err.splitlines()[-4:])
        assert not self.left, f"{self.left} processes are left"
        assert self.killed or self.code in (0, 1, 2, 129, 130, 143), (self.code, self.err)
        if self.code == 1:
            wrong = [line for line in self.err.splitlines() if line.startswith("error: ")]
            assert wrong and max(map(len, wrong)) < 300, self.err


class Mexma:
    """The program, in the warm process."""

    def __init__(self, folder: Path, encoder: Path) -> None:
        compiler = shutil.which("cc")
        if compiler is None or sys.platform != "linux":
            pytest.skip("faults need Linux and a C compiler named cc")
        shim = folder / "shim.so"
        source = Path(__file__).with_name("shim.c")
        subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", shim, source, "-ldl"], check=True)
        one = dict.fromkeys(("OMP_NUM_THREADS", "RAYON_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        environment = one | {
            "LD_PRELOAD": str(shim),
            "TOKENIZERS_PARALLELISM": "false",
            "HF_HUB_OFFLINE": "1",
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.warm", encoder, folder / "texts"],
            cwd=ROOT,
            env=os.environ | environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._answer() == []

    def _answer(self) -> list[dict[str, Any]]:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def __call__(
        self,
        words: Sequence[str],
        folder: Path,
        fault: Fault = Fault.NONE,
        at: int = 0,
        **more: Any,
    ) -> Ended:
        """Run `mexma WORDS` in a folder; temporary files go to `FOLDER.tmp`, empty at first.

        Args:
            at: The operation on files below the folder, from 1, at which the fault comes.
            more: `signal` that comes, `log` of operations to write, `threads`, the limits `seconds` and
                `megabytes`, and `headroom`, megabytes by which the address space may grow.
        """
        (ended,) = self._run(words, folder, fault=fault, at=at, **more)
        return ended

    def two(
        self, folder: Path, one: Sequence[str], at: int, other: Sequence[str], other_at: int
    ) -> list[Ended]:
        """Run two commands side by side: each stops at an operation of its own until the other had its turn.

        Args:
            at: The first one's; then the second runs.
            other_at: The second one's, 0 for none; then the first goes on.
        """
        beside = {"words": list(other), "at": other_at}
        return self._run(one, folder, fault=Fault.SIGNAL, signal=signal.SIGSTOP, at=at, beside=beside)

    def _run(self, words: Sequence[str], folder: Path, **job: Any) -> list[Ended]:
        temporary = folder.with_name(f"{folder.name}.tmp")
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir()
        usual = {"fault": Fault.NONE, "at": 0, "signal": 0, "log": "", "threads": 1}
        usual |= {"seconds": 120, "megabytes": 2048, "headroom": None, "beside": None, "patience": 2}
        where = {"words": list(words), "folder": str(folder), "temporary": str(temporary)}
        assert self._process.stdin is not None
        print(json.dumps(where | usual | job), file=self._process.stdin, flush=True)
        return [Ended(**ended) for ended in self._answer()]

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


Tree = Mapping[str, bytes | None]


def tree(folder: Path) -> Tree:
    """The bytes of all files below a folder by their names; None for a folder."""
    paths = sorted(folder.rglob("*"))
    return {str(path.relative_to(folder)): None if path.is_dir() else path.read_bytes() for path in paths}


def differing(one: Tree, other: Tree) -> list[str]:
    """The names that only one has, or whose bytes differ."""
    return sorted(name for name in {*one, *other} if one.get(name, b"-") != other.get(name, b"-"))
