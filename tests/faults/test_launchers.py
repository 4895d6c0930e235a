"""Several real processes: the launcher or a worker gets a signal; nobody is left, nothing is lost."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from tests.faults.commands import PREPARE, RUN, TRAIN, Command
from tests.faults.conftest import Campaign
from tests.faults.running import ROOT, Mexma, Tree, differing, tree
from tests.faults.stand import Stand, untimed
from tests.processes import wait_until

CASES = {
    "train": (Command("train", TRAIN, (PREPARE,), (*TRAIN, "--resume")), ("--nproc-per-node", "2")),
    "run": (Command("run", RUN), ("--jobs", "4")),
}
"""Commands, and what starts several processes."""
SAME = ("run/encoder/", "out/", "thesis/")
"""What a campaign looks at; the checkpoints of a training depend on when it was stopped."""


@pytest.mark.faults
@pytest.mark.parametrize("name", CASES)
def test_a_signal_to_a_launcher_or_a_worker(
    campaign: Campaign,
    name: str,
    mexma: Mexma,
    base: Callable[[Sequence[Sequence[str]]], Path],
    tmp_path: Path,
) -> None:
    command, together = CASES[name]
    stand = Stand(mexma, command, tmp_path, base)
    began = time.monotonic()
    launcher = _start(stand.fresh(), *command.words, *together)
    assert launcher.wait() == 0
    length, whole = time.monotonic() - began, _made(tmp_path / "here")

    def attempt(rng: random.Random) -> str:
        folder = stand.fresh()
        launcher = _start(folder, *command.words, *together)
        time.sleep(rng.uniform(0.1, 1.0) * length)
        everyone = _session_of(folder)
        hit = rng.choice([launcher.pid, *everyone])
        number = rng.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
        who = f"{number.name} to {'the launcher' if hit == launcher.pid else 'a worker'}"
        with suppress(ProcessLookupError):
            os.kill(hit, number)
        launcher.wait(timeout=120)
        wait_until(lambda: not _session_of(folder))
        again = (*command.second(folder), *together)
        assert launcher.returncode == 0 or _start(folder, *again).wait(timeout=300) == 0, who
        wrong = differing(_made(folder), whole)
        assert not wrong, f"{who}: {wrong[:5]}"
        return who

    campaign(attempt, attempts=2)


def _made(folder: Path) -> Tree:
    found = untimed(tree(folder))
    return {name: data for name, data in found.items() if name.startswith(SAME)}


def _start(folder: Path, *words: str) -> subprocess.Popen[bytes]:
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    with (folder / "said.txt").open("wb") as said:
        return subprocess.Popen(
            [sys.executable, "-m", "mexma_cli", *words], cwd=folder, env=environment, stdout=said, stderr=said
        )


def _session_of(folder: Path) -> list[int]:
    """The processes that work in a folder, but those that have ended."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if os.readlink(process / "cwd") == str(folder) and ") Z" not in (process / "stat").read_text():
                found.append(int(process.name))
        except OSError:
            continue
    return found
