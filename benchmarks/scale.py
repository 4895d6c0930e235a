"""The processor time that `mexma run --dry-run` says, beside what the run then takes, at some sizes.

    OMP_NUM_THREADS=1 python benchmarks/scale.py [--lines 6000 24000 60000] [--tile 20000]
    OMP_NUM_THREADS=1 python benchmarks/scale.py --index 24000 60000

The text is examples/spa-eng again and again, with a number behind each line, so that lines differ. Costs are
measured once, on 2,000 lines of it. The run is of one process with one thread; what it takes is the time of
the processor, which other work on the machine changes less than the clock's, without the start of the
process and of the encoder (a small run warms up). Disk is what the run's folder has at the end; the dry run
says what it has at most. --index does the same for a search of so many made-up vectors a side with indexes,
for the effort that the search finds to be enough.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from itertools import count, islice
from pathlib import Path

import numpy as np

from mexma_cli.knn.approximate import IndexSettings, ann
from mexma_cli.knn.faiss_index import choose
from mexma_cli.recipe import load_corpus
from mexma_cli.stages.run.calibrate import FILE, InThisProcess, calibrate
from mexma_cli.stages.run.estimate import index_cost
from mexma_cli.stages.run.run import run_corpus

DEMO = Path(__file__).parent.parent / "examples" / "spa-eng"


def write_text(code: str, lines: int, path: Path) -> None:
    text = (DEMO / f"{code}.txt").read_text(encoding="utf-8").splitlines()
    numbered = (f"{line} {number}\n" for number in count() for line in text)
    path.write_text("".join(islice(numbered, lines)), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lines", type=int, nargs="+", default=[6000, 24000, 60000])
    parser.add_argument("--tile", type=int, default=20000)
    parser.add_argument("--index", type=int, nargs="+", metavar="ROWS", help="search with indexes instead")
    settings = parser.parse_args()
    if settings.index:
        search_indexes(settings.index)
        return
    with tempfile.TemporaryDirectory(prefix="mexma-benchmark-") as name:
        folder, costs = Path(name), ""
        for code in ("spa", "eng"):
            write_text(code, 600, folder / f"{code}.txt")
        run((f"run={folder / 'first'}", f"root={folder}"), folder)  # compiles, and loads the encoder
        print(f"{'lines':>9} {'stage':<6} {'said':>9} {'took':>9}   said / took")
        for lines in settings.lines:
            for code in ("spa", "eng"):
                write_text(code, lines, folder / f"{code}.txt")
            overrides = (f"run={folder / str(lines)}", f"root={folder}", f"units.tile={settings.tile}")
            command = [sys.executable, "-m", "mexma_cli", "run", str(DEMO.parent / "corpus.yaml")]
            command += [word for override in overrides for word in ("--set", override)]
            (folder / str(lines)).mkdir()
            if costs:
                (folder / str(lines) / FILE).write_text(costs)
            command += ["--dry-run", "--json", *([] if costs else ["--calibrate"])]
            said = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
            costs = (folder / str(lines) / FILE).read_text()

            took, disk = run(overrides, folder / str(lines))
            for stage, hours in said["processor"].items():
                show(lines, stage, 3600 * hours, took[stage])
            show(lines, "all", 3600 * sum(said["processor"].values()), sum(took.values()))
            print(f"{lines:>9,} {'disk':<6} {said['disk'] / 1e6:>6,.0f} MB {disk / 1e6:>6,.0f} MB", end="")
            print(f"   {said['disk'] / disk:.2f}")


def search_indexes(sizes: list[int], dim: int = 320) -> None:
    with tempfile.TemporaryDirectory(prefix="mexma-benchmark-") as name:
        overrides = (f"run={name}/run", f"root={DEMO}")
        costs = calibrate(load_corpus(str(DEMO.parent / "corpus.yaml"), overrides), dim)
    rng = np.random.default_rng(0)
    before = 0.0, 0.0
    for rows in sizes:
        topics = rng.standard_normal((rows // 50, dim), dtype=np.float32)
        x, y = (topics[rng.integers(0, len(topics), rows)] for _ in range(2))
        x, y = (side + rng.standard_normal((rows, dim), dtype=np.float32) for side in (x, y))
        began = time.process_time()
        found = ann(x, y, 4, IndexSettings(index=choose(rows, dim))).forward
        took, probes = time.process_time() - began, int(found.effort.partition("=")[2])
        said = 2 * index_cost(rows, rows, costs, probes, found.hits)[0]
        more = (
            f"; for the rows that are more: {(said - before[0]) / (took - before[1]):.2f}"
            if before[1]
            else ""
        )
        print(
            f"{rows:>9,} {found.index}, {found.effort}: {said:.2f} s {took:.2f} s   {said / took:.2f}{more}"
        )
        before = said, took


def run(overrides: tuple[str, ...], folder: Path) -> tuple[dict[str, float], int]:
    """Seconds of the processor by stage, and bytes that lie in the run's folder then."""
    made: list[InThisProcess] = []

    def here(path: Path) -> InThisProcess:
        made.append(InThisProcess(path))
        return made[0]

    done = run_corpus(load_corpus(str(DEMO.parent / "corpus.yaml"), overrides), here)
    stages = {unit.work: unit.stage for unit in done.units.values()}
    took = dict.fromkeys(stages.values(), 0.0)
    for work, seconds in made[0].seconds.items():
        took[stages[work]] += seconds
    return took, sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def show(lines: int, what: str, said: float, took: float) -> None:
    print(f"{lines:>9,} {what:<6} {said:>7.2f} s {took:>7.2f} s   {said / took:.2f}", flush=True)


if __name__ == "__main__":
    main()
