"""Training in two real processes: the launcher or a worker gets a signal; nobody is left, nothing is lost."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.faults.commands import PREPARE, TRAIN, Command, Stand
from tests.faults.conftest import Campaign
from tests.faults.running import ROOT, Mexma
from tests.processes import wait_until

TOGETHER = ("--nproc-per-node", "2")


@pytest.mark.faults
def test_a_signal_to_a_launcher_or_a_worker(
    campaign: Campaign, mexma: Mexma, tiny_encoder: Path, tmp_path: Path
) -> None:
    command = Command("together", TRAIN, (PREPARE,), (*TRAIN, "--resume"))
    stand = Stand(mexma, command, tmp_path, tiny_encoder)
    began = time.monotonic()
    launcher = _start(stand.fresh(), *TRAIN, *TOGETHER)
    assert launcher.wait() == 0
    length, whole = time.monotonic() - began, (tmp_path / "here/run/encoder/model.safetensors").read_bytes()

    def attempt(rng: random.Random) -> str:
        folder = stand.fresh()
        launcher = _start(folder, *TRAIN, *TOGETHER)
        time.sleep(rng.uniform(0.1, 1.0) * length)
        everyone = _session_of(folder)
        hit = rng.choice([launcher.pid, *everyone])
        number = rng.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
        who = f"{number.name} to {'the launcher' if hit == launcher.pid else 'a worker'}"
        with suppress(ProcessLookupError):
            os.kill(hit, number)
        launcher.wait(timeout=120)
        wait_until(lambda: not _session_of(folder))
        second = (*stand.command.second(folder), *TOGETHER)
        assert launcher.returncode == 0 or _start(folder, *second).wait(timeout=300) == 0, who
        assert (folder / "run/encoder/model.safetensors").read_bytes() == whole, who
        return who

    campaign(attempt, attempts=2)


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
