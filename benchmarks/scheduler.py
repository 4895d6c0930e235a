"""The scheduler of `mexma run` on a large plan and a cluster that fails, on a clock of the workers' own.

    python benchmarks/scheduler.py [--workers 64] [--deaths 0.1] [--straggling 0.01] [--profile]

The plan is a recipe's, of six languages with each other: 10,023 units. The scheduler, the records and the
files that describe units are the real ones; only the work is none. A unit takes a minute on average (the
logarithm is normal, with a deviation of 0.5), some take ten times as long, and a worker dies so often an
hour, with the unit that it does, and comes back a minute later. Nothing waits: the clock goes from event to
event.

Printed are the processor time that the scheduler took for a unit, without the simulated workers; the work
that was lost with workers; and the share of their time in which workers did what counted. Beside that stands
what no schedule can do better: the work divided by the workers.
"""

from __future__ import annotations

import argparse
import cProfile
import heapq
import json
import math
import random
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mexma_cli.settings.corpus import CorpusRecipe
from mexma_cli.stages.run.executor import Ended
from mexma_cli.stages.run.plan import plan, read_unit
from mexma_cli.stages.run.scheduler import Scheduler
from mexma_cli.stages.run.texts import Cut, Pieces
from mexma_cli.stages.run.units import Kind, Record, RunFolder, Unit

CODES = ("fra", "deu", "spa", "ita", "por", "eng")
LINES, PIECE, TILE = 5_000_000, 50_000, 200_000
MINUTE, SPREAD, LONGER = 60.0, 0.5, 10.0


class Simulated:
    """Workers that do nothing for as long as a unit takes, or die, by a clock of their own.

    Args:
        deaths: Of a worker, an hour.
        straggling: The share of units that take `LONGER` times as long.
    """

    def __init__(self, folder: RunFolder, workers: int, deaths: float, straggling: float, seed: int) -> None:
        self._folder, self._deaths, self._straggling = folder, deaths / 3600, straggling
        self._random, self.workers = random.Random(seed), workers
        self.now = self.useful = self.lost = self.spent = 0.0
        self.tries = self.died = 0
        self._idle = workers
        self._waiting: deque[Path] = deque()
        self._events: list[
            tuple[float, int, float, Path | None, bool]
        ] = []  # ends, number, began, unit, dies

    @property
    def slots(self) -> int:
        return 2 * self.workers

    def submit(self, todo: Path) -> None:
        with self._ours():
            self._waiting.append(todo)
            self._begin()

    def ended(self, seconds: float) -> Sequence[Ended]:
        with self._ours():
            while True:
                self.now, _, began, todo, dies = heapq.heappop(self._events)
                if todo is None:  # a worker that had died is back
                    self._idle += 1
                    self._begin()
                    continue
                if dies:
                    self.lost += self.now - began
                    self.died += 1
                    self._at(self.now + MINUTE, None)
                    return [Ended(todo, "its worker died", died=True)]
                self.useful += self.now - began
                self._record(read_unit(todo), self.now - began)
                self._idle += 1
                self._begin()
                return [Ended(todo)]

    def stop(self) -> None:
        self._waiting.clear()

    def _begin(self) -> None:
        while self._idle and self._waiting:
            self._idle -= 1
            self.tries += 1
            takes = MINUTE * math.exp(self._random.gauss(-(SPREAD**2) / 2, SPREAD))
            takes *= LONGER if self._random.random() < self._straggling else 1
            lives = self._random.expovariate(self._deaths) if self._deaths else math.inf
            self._at(self.now + min(takes, lives), self._waiting.popleft(), lives < takes)

    def _at(self, when: float, todo: Path | None, dies: bool = False) -> None:
        heapq.heappush(self._events, (when, self.tries * 2 + (todo is None), self.now, todo, dies))

    def _record(self, unit: Unit, seconds: float) -> None:
        """What a worker leaves of a unit that it has done, but for the work and the disk's promises."""
        facts: dict[str, Any] = {}
        if isinstance(unit, Cut):
            pieces = range(0, LINES, PIECE)
            facts = {
                "pieces": [
                    {"name": f"{start // PIECE:05d}.txt.zst", "lines": PIECE, "checksum": f"{start}"}
                    for start in pieces
                ]
            }
        record = Record(
            key="of a simulation", output=unit.output, checksum=unit.name, facts=facts, seconds=seconds
        ).sealed()
        path = self._folder.todo(unit.name)
        path.with_name(path.name.replace(".todo.json", ".json")).write_text(
            json.dumps(record.model_dump(mode="json"))
        )

    @contextmanager
    def _ours(self) -> Iterator[None]:
        """Time that is the simulation's, and not the scheduler's."""
        began = time.process_time()
        yield
        self.spent += time.process_time() - began


def recipe() -> CorpusRecipe:
    return CorpusRecipe.model_validate(
        {
            "kind": "corpus",
            "name": "simulated",
            "run": "simulated",
            "languages": {code: {"input": f"{code}.txt"} for code in CODES},
            "units": {"lines": PIECE, "tile": TILE},
        }
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workers", type=int, default=64)
    parser.add_argument("--deaths", type=float, default=0.1, help="of a worker, an hour")
    parser.add_argument("--straggling", type=float, default=0.01, help="share of units")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--profile", action="store_true")
    settings = parser.parse_args()
    corpus = recipe()
    inputs = {code: {f"{code}.txt": "checksum"} for code in corpus.languages} | {"/encoder": {}}
    with tempfile.TemporaryDirectory(prefix="mexma-benchmark-") as name:
        folder = RunFolder(Path(name))
        workers = Simulated(folder, settings.workers, settings.deaths, settings.straggling, settings.seed)

        def kinds(cut: Callable[[str], Pieces | None]) -> list[Kind]:
            return plan(corpus, inputs, cut)

        profile = cProfile.Profile()
        began, wall = time.process_time(), time.monotonic()
        if settings.profile:
            profile.enable()
        progress = Scheduler(folder, kinds, workers).run()
        profile.disable()
        took, wall = time.process_time() - began - workers.spent, time.monotonic() - wall
        if settings.profile:
            profile.print_stats("cumulative")
    count, hours = len(progress.units), workers.now / 3600
    ideal = workers.useful / workers.workers / 3600
    print(f"units: {count:,}: {len(progress.done):,} done, {len(progress.failed):,} failed", end="")
    print(f", {len(progress.blocked):,} blocked; {workers.died:,} workers died")
    print(f"simulated: {hours:.2f} hours of {workers.workers} workers; {ideal:.2f} is the least there can be")
    print(f"utilisation: {ideal / hours:.1%}")
    print(f"lost work: {workers.lost / (workers.useful + workers.lost):.2%} of what workers did")
    print(f"scheduler: {1000 * took / count:.2f} ms of processor time a unit, {took:.1f} s in all", end="")
    print(f" ({took / workers.now:.2%} of the run); {wall:.1f} s by the clock, the simulation's time in it")


if __name__ == "__main__":
    main()
