"""What the executors of `mexma run` cost: the same units by one process in a loop, and by one worker of each.

    python benchmarks/executors.py [--units 300] [--executors local ray]

Each unit cuts a text of 200 lines into pieces: real work, but little of it, so that what is around it can be
seen. Counted is the processor time of all processes of a run, between the first unit after some that warm up
and the last one: the scheduler, its files, what goes between the processes, and what Ray's own processes do
meanwhile. The loop does the units alone, with the files that a worker writes. The difference, for a unit, is
what an executor costs; with what its processes take of a core while nothing is done, it gives the share of
a unit of a minute.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from mexma_cli.executors.local import LocalExecutor
from mexma_cli.executors.ray import RayExecutor
from mexma_cli.files import checksum_file
from mexma_cli.numerics.threads import cores
from mexma_cli.settings.corpus import RaySettings
from mexma_cli.stages.run.executor import Executor
from mexma_cli.stages.run.scheduler import Scheduler
from mexma_cli.stages.run.texts import Cut
from mexma_cli.stages.run.units import RunFolder, Unit, one
from mexma_cli.stages.run.work import perform

LINES, WARM, MINUTE, IDLE = 200, 20, 60.0, 20.0
EXECUTORS: dict[str, Callable[[Path], Executor]] = {
    "local": lambda run: LocalExecutor(run, jobs=1, threads=1),
    "ray": lambda run: RayExecutor(run, RaySettings(cpus=cores())),
}


def used() -> float:
    """Seconds of the processor that this process and those below it have used, with those that have ended."""
    children, seconds = defaultdict(list), {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            fields = (process / "stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        children[int(fields[1])].append(int(process.name))
        seconds[int(process.name)] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    found, total = [os.getpid()], 0.0
    while found:
        process = found.pop()
        total += seconds.get(process, 0.0)
        found += children[process]
    return total


def cuts(folder: Path, first: int, count: int) -> list[Unit]:
    """Units, and the texts that they cut."""
    units = []
    for number in range(first, first + count):
        text = folder / f"{number}.txt"
        text.write_text("".join(f"line {line} of text {number}\n" for line in range(LINES)))
        name = f"{number}/text"
        units.append(Cut(name=name, lines=100, files={str(text): checksum_file(text)}, output=name))
    return units


def measured(do: Callable[[list[Unit]], object], folder: Path, count: int) -> tuple[float, float]:
    """Seconds of the processor, and by the clock, of `count` units."""
    do(cuts(folder, 0, WARM))
    units = cuts(folder, WARM, count)
    began, clock = used(), time.monotonic()
    do(units)
    return used() - began, time.monotonic() - clock


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--units", type=int, default=300)
    parser.add_argument("--executors", nargs="+", choices=EXECUTORS, default=list(EXECUTORS))
    settings = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mexma-benchmark-") as name:
        loop = RunFolder(Path(name) / "loop")
        loop.path.mkdir()
        alone, clock = measured(
            lambda units: [perform(loop.path, loop.announce(unit)) for unit in units],
            loop.path,
            settings.units,
        )
        a_unit, by_clock = (1000 * spent / settings.units for spent in (alone, clock))
        print(f"one process: {a_unit:.1f} ms of the processor a unit, {by_clock:.1f} ms by the clock")
        for kind in settings.executors:
            folder = RunFolder(Path(name) / kind)
            folder.path.mkdir()
            executor = EXECUTORS[kind](folder.path)
            try:
                spent, clock = measured(
                    lambda units, folder=folder, executor=executor: Scheduler(
                        folder, lambda cut: [one(unit, LINES) for unit in units], executor
                    ).run(),
                    folder.path,
                    settings.units,
                )
                began = used()
                time.sleep(IDLE)
                idle = (used() - began) / IDLE
            finally:
                executor.stop()
            more = (spent - alone) / settings.units
            print(
                f"{kind}: {1000 * spent / settings.units:.1f} ms of the processor a unit, "
                f"{1000 * clock / settings.units:.1f} ms by the clock; {1000 * more:.1f} ms more "
                f"than one process; idle {idle:.2%} of a core; "
                f"together {more / MINUTE + idle:.2%} of a unit of a minute"
            )


if __name__ == "__main__":
    main()
