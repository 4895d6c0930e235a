"""A run whose driver and workers are killed at random ends with the bytes of an undisturbed one."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mexma_cli.stages.run.run import run_corpus
from tests.corpora import InThisProcess, corpus
from tests.stages.run.test_run import files

KILLS = 20
CODES = ("fra", "eng", "deu", "spa", "ita", "por")


def workers(driver: int) -> Iterator[int]:
    """The processes that a driver has started."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(stat.read_text().rpartition(")")[2].split()[1]) == driver:
                yield int(stat.parent.name)
        except (FileNotFoundError, ProcessLookupError):
            continue


@pytest.mark.slow
def test_twenty_kills_leave_the_same_bytes(tmp_path: Path, tiny_encoder: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for folder in (one, two):
        folder.mkdir()
        corpus(folder, tiny_encoder)
        for code in CODES[3:]:
            (folder / f"{code}.txt").write_text((folder / "fra.txt").read_text().replace(" ", f" {code} ", 2))
    texts = {code: {"input": f"{code}.txt"} for code in CODES}
    wanted, recipe = (corpus(folder, tiny_encoder, languages=texts) for folder in (one, two))
    run_corpus(wanted, InThisProcess)
    (two / "corpus.yaml").write_text(recipe.to_yaml(), encoding="utf-8")
    command = [sys.executable, "-m", "mexma_cli", "-q", "run", str(two / "corpus.yaml"), "--jobs", "2"]
    chance, kills = random.Random(0), 0
    while True:
        run = subprocess.Popen(command, start_new_session=True, stderr=subprocess.PIPE)
        while kills < KILLS and run.poll() is None:
            time.sleep(chance.uniform(0.1, 6))
            victims = [*workers(run.pid), run.pid]
            victim = run.pid if chance.random() < 0.5 else chance.choice(victims)
            if run.poll() is None:
                os.kill(victim, signal.SIGKILL)
                kills += 1
            if victim == run.pid:
                run.wait()
        said = run.communicate()[1].decode()
        assert "Traceback" not in said, said
        if run.returncode == 0:
            break
    found = {name: held for name, held in files(recipe).items() if not name.startswith("logs/")}
    assert kills == KILLS and found == files(wanted)
