"""What a process does that a launcher has started; the launcher is a real one, but for its work."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from subprocess import PIPE

import pytest

from mexma_cli.training.launch import LAUNCHED

PYTHON = (sys.executable, "-c")
LAUNCHER = "import subprocess, sys; subprocess.Popen(sys.argv[1:], start_new_session=True); input()"
WORKER = """
import os
from mexma_cli.training.launch import end_with_launcher
end_with_launcher()
print(os.getpid(), flush=True)
while True:
    pass
"""


@pytest.fixture
def store() -> Iterator[socket.socket]:
    """Listens as a launcher does for as long as it is alive."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


def start(named: str, port: int, *command: str) -> subprocess.Popen[str]:
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    environment = os.environ | place | {named: "1", "TORCHELASTIC_USE_AGENT_STORE": "True"}
    return subprocess.Popen(command, env=environment, stdin=PIPE, stdout=PIPE, text=True)


def kill_when_at_work(launcher: subprocess.Popen[str]) -> int:
    assert launcher.stdout is not None
    worker = int(launcher.stdout.readline())
    launcher.kill()
    return worker


@pytest.mark.parametrize("way", [[], ["sh", "-c", '"$@"; true', "sh"]], ids=["itself", "through a shell"])
@pytest.mark.parametrize("named", [LAUNCHED, "TORCHELASTIC_RUN_ID"])
def test_what_computes_ends_with_its_launcher(named: str, way: list[str], store: socket.socket) -> None:
    port = store.getsockname()[1]
    launcher = start(named, port, *PYTHON, LAUNCHER, *way, *PYTHON, WORKER)
    kill_when_at_work(launcher)
    launcher.communicate(timeout=60)  # to the end of stdout: nobody has it open any more


def test_embed_ends_with_its_launcher(store: socket.socket, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "text")
    words = ("-m", "mexma_cli", "embed", str(tmp_path / "text"), "-o", str(tmp_path / "a.emb"))
    launcher = start(LAUNCHED, store.getsockname()[1], *PYTHON, LAUNCHER, sys.executable, *words)
    with (tmp_path / "text").open("w"):  # opens when the other end does
        launcher.kill()
        launcher.communicate(timeout=60)


def test_what_looks_only_after_its_launcher_was_killed_ends(store: socket.socket) -> None:
    port = store.getsockname()[1]
    store.close()
    assert start(LAUNCHED, port, *PYTHON, WORKER).wait(timeout=60) == 1


def test_what_no_launcher_has_started_outlives_its_parent() -> None:
    parent = start("NOTHING", 0, *PYTHON, LAUNCHER, *PYTHON, WORKER)
    worker = kill_when_at_work(parent)
    with pytest.raises(subprocess.TimeoutExpired):
        parent.communicate(timeout=1.5)
    os.kill(worker, signal.SIGKILL)
