"""A run that is killed at random, wherever it runs, ends with the bytes of an undisturbed one."""

from __future__ import annotations

import gzip
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from mexma_cli.executors.local import LocalExecutor
from mexma_cli.settings.corpus import CorpusRecipe
from mexma_cli.stages.run.run import run_corpus
from tests.stages.run.test_run import files

pytestmark = pytest.mark.slow

CODES = ("fra", "deu", "spa", "ita", "por", "eng")
DOCUMENTS = 20
EVENTS = ["worker"] * 7 + ["driver"] * 5 + ["node"] * 4 + ["disk"] * 4
ROOM, NO_ROOM = 1 << 30, 64 << 10  # bytes of the run's disk, and bytes that are left on it when it is full
PATIENCE = 600.0


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, of a size that can be changed."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={ROOM}", "tmpfs", folder], check=False)
    if mounted.returncode:
        pytest.skip("a disk that fills up needs root, to mount one")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A Ray cluster of two nodes on this machine; the second one is there to be killed."""
    services = pytest.importorskip("ray._private.services", reason="needs the extra ray")
    from ray.cluster_utils import Cluster

    asked = services.get_node

    def patient(*given: object) -> object:
        """Ray gives up on a node that does not answer within half a minute, as on a busy machine."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            with suppress(RuntimeError):
                return asked(*given)
        return asked(*given)

    monkeypatch.setattr(services, "get_node", patient)
    found = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    found.add_node(num_cpus=1)
    yield found
    found.shutdown()


def documents(shared: Path, folder: Path) -> None:
    """News in six languages, translations of each other: a document a line, two files a language."""
    news = shared / "data/ntrex128"
    ids = gzip.decompress((news / "docids.txt.gz").read_bytes()).decode().split()
    for code in CODES:
        lines = gzip.decompress((news / f"{code}_Latn.txt.gz").read_bytes()).decode().splitlines()
        found = [
            {"id": name, "text": " ".join(line for _, line in group)}
            for name, group in groupby(zip(ids, lines, strict=True), key=lambda pair: pair[0])
        ]
        (folder / code).mkdir()
        for part in (0, 1):
            texts = found[part:DOCUMENTS:2]
            (folder / code / f"{part}.jsonl").write_text("".join(f"{json.dumps(text)}\n" for text in texts))


def recipe(root: Path, run: Path, address: str, index: str) -> CorpusRecipe:
    return CorpusRecipe.model_validate(
        {
            "kind": "corpus",
            "name": "news",
            "run": str(run),
            "root": str(root),
            "encoder": {"model": "mini", "device": "cpu", "dtype": "fp32"},
            "languages": {code: {"input": code, "split": {"rejects": True}} for code in CODES},
            "units": {"lines": 70, "tile": 150},
            "mine": {"threshold": "auto", "index": index, "recall": 0.5},
            "filter": {"rejects": True},
            "output": {"compression": "zst"},
            "ray": {"address": address},
        }
    )


def records(run: Path) -> int:
    """Units that are done."""
    return sum(1 for path in run.glob("units/**/*.json") if not path.name.endswith(".todo.json"))


class Driver:
    """`mexma run`, with what can happen to it."""

    def __init__(self, recipe: Path, run: Path, cluster: Any, executor: str) -> None:
        self._run, self._cluster, self.executor = run, cluster, executor
        command = [sys.executable, "-m", "mexma_cli", "-q", "run", str(recipe), "--executor", executor]
        self._errors = recipe.with_suffix(".err")
        with self._errors.open("wb") as errors:
            jobs = ["--jobs", "2"] if executor == "local" else []
            self.process = subprocess.Popen([*command, *jobs], stderr=errors, start_new_session=True)

    def gone(self) -> bool:
        return self.process.poll() is not None

    def said(self) -> str:
        return self._errors.read_text()

    def wait(self) -> int:
        return self.process.wait(PATIENCE)

    def strike(self, event: str, chance: random.Random) -> bool:
        """Let it happen; False if the driver has ended, and there was nothing that it could happen to."""
        if event == "driver":
            self.process.kill()
            self.wait()
        elif event == "disk":
            used = os.statvfs(self._run.parent)
            self._resize((used.f_blocks - used.f_bfree) * used.f_frsize + NO_ROOM)
            assert self.wait() == 1 and "no space left on the disk" in self.said(), self.said()
            self._resize(ROOM)
        elif event == "node":
            self._cluster.remove_node(self._cluster.worker_nodes.copy().pop(), allow_graceful=False)
            self._cluster.add_node(num_cpus=1)
        else:
            while not (there := list(self._workers())):
                if self.gone():
                    return False
                time.sleep(0.1)
            os.kill(chance.choice(there), signal.SIGKILL)
        return True

    def _resize(self, size: int) -> None:
        how = f"remount,size={size}"
        subprocess.run(["mount", "-o", how, self._run.parent], check=True)

    def _workers(self) -> Iterator[int]:
        """The processes that do its units."""
        for process in Path("/proc").glob("[0-9]*"):
            try:
                parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
                name = (process / "cmdline").read_bytes()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if name.startswith(b"ray::attempt") if self.executor == "ray" else parent == self.process.pid:
                yield int(process.name)


@pytest.mark.parametrize("index", ["exact", "IVF4,Flat"])
def test_twenty_kills_leave_the_same_bytes(
    shared: Path, tmp_path: Path, disk: Path, cluster: Any, capsys: pytest.CaptureFixture[str], index: str
) -> None:
    """Six languages, all pairs, documents to filtered bitext."""
    documents(shared, tmp_path)
    wanted = recipe(tmp_path, disk / "undisturbed", cluster.address, index)
    progress = run_corpus(wanted, lambda folder: LocalExecutor(folder, jobs=1, threads=1))
    stages = {unit.stage for unit in progress.units.values()}
    assert stages == {"split", "read", "embed", "knn", "mine", "filter"} and len(progress.goals) == 15
    assert any(unit.work == "search_index" for unit in progress.units.values()) == (index != "exact")

    killed, file = recipe(tmp_path, disk / "run", cluster.address, index), tmp_path / "corpus.yaml"
    file.write_text(killed.to_yaml(), encoding="utf-8")
    chance, run = random.Random(0), disk / "run"
    events = chance.sample(EVENTS, len(EVENTS))
    when = sorted(chance.sample(range(len(progress.units) - 20), len(EVENTS)))  # units that are done by then
    happened: list[str] = []
    while True:
        likely = chance.choice(["local", "ray"])
        now = len(happened)
        driver = Driver(file, run, cluster, "ray" if events[now : now + 1] == ["node"] else likely)
        while len(happened) < len(events):
            event = events[len(happened)]
            if event == "node" and driver.executor != "ray":
                driver.strike("driver", chance)  # and once more in its place, where there are nodes
                break
            while records(run) < when[len(happened)] and not driver.gone():
                time.sleep(0.02)
            if driver.gone() or not driver.strike(event, chance):
                break
            happened.append(event)
            with capsys.disabled():
                where = f"{records(run)} of {len(progress.units)} units done"
                print(f"{len(happened)}: {event} ({driver.executor}), {where}", flush=True)
            if event in ("driver", "disk"):
                break
        code, said = driver.wait(), driver.said()
        assert "Traceback" not in said and not said.startswith("Usage"), said
        if code == 0:
            break
    assert happened == events
    found = {name: held for name, held in files(killed).items() if not name.startswith("logs/")}
    there = {name: held for name, held in files(wanted).items() if not name.startswith("logs/")}
    assert found == there
    bitext = [held for name, held in found.items() if name.startswith("bitext/") and "rejects" not in name]
    assert len(bitext) == 15 and all(bitext)
