"""The processor time that `mexma run --dry-run` says, beside what the run then takes, at some sizes.

    OMP_NUM_THREADS=1 python benchmarks/scale.py [--lines 6000 24000 60000] [--tile 20000]
    OMP_NUM_THREADS=1 python benchmarks/scale.py --index

The text is examples/spa-eng again and again, with a number behind each line, so that lines differ. Costs are
measured once, on 2,000 lines of it. The run is of one process with one thread; what it takes is the time of
the processor, which other work on the machine changes less than the clock's, without the start of the
process and of the encoder (a small run warms up). Disk is what the run's folder has at the end; the dry run
says what it has at most. With --index the run searches with indexes, of the kind that `auto` takes for so
many rows, and the dry run comes after it, since it only guesses how many lists are looked at before.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from itertools import count, islice
from pathlib import Path

from mexma_cli.knn.faiss_index import choose_index
from mexma_cli.settings.load import load_corpus
from mexma_cli.stages.run.estimate import FILE
from mexma_cli.stages.run.executor import InThisProcess
from mexma_cli.stages.run.run import run_corpus
from mexma_cli.stages.run.units import RunFolder

DIM = 320  # of mini
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
    parser.add_argument("--index", action="store_true", help="search with indexes")
    settings = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mexma-benchmark-") as name:
        folder, costs = Path(name), ""
        for code in ("spa", "eng"):
            write_text(code, 600, folder / f"{code}.txt")
        run((f"run={folder / 'first'}", f"root={folder}"), folder)  # compiles, and loads the encoder
        print(f"{'lines':>9} {'stage':<14} {'said':>9} {'took':>9}   said / took")
        for lines in settings.lines:
            for code in ("spa", "eng"):
                write_text(code, lines, folder / f"{code}.txt")
            overrides = (f"run={folder / str(lines)}", f"root={folder}", f"units.tile={settings.tile}")
            if settings.index:
                overrides += (f"mine.index={choose_index(lines, DIM)}",)
            command = [sys.executable, "-m", "mexma_cli", "run", str(DEMO.parent / "corpus.yaml")]
            command += [word for override in overrides for word in ("--set", override)]
            (folder / str(lines)).mkdir()
            if costs:
                (folder / str(lines) / FILE).write_text(costs)
            command += ["--dry-run", "--json", *([] if costs else ["--calibrate"])]
            said = dry_run(command)
            costs = (folder / str(lines) / FILE).read_text()
            took, stages, disk = run(overrides, folder / str(lines))
            if settings.index:
                said = dry_run(command)
            for stage, hours in said["processor"].items():
                works = [work for work in said["works"] if work in took and stages[work] == stage]
                show(lines, stage, 3600 * hours, sum(took[work] for work in works))
                for work in works if settings.index and stage == "knn" else ():
                    show(lines, f"- {work}", 3600 * said["works"][work]["hours"], took[work])
            show(lines, "all", 3600 * sum(said["processor"].values()), sum(took.values()))
            print(f"{lines:>9,} {'disk':<14} {said['disk'] / 1e6:>6,.0f} MB {disk / 1e6:>6,.0f} MB", end="")
            print(f"   {said['disk'] / disk:.2f}")


def dry_run(command: list[str]) -> dict:
    """What it says, without measuring costs again."""
    done = subprocess.run(command, check=True, capture_output=True)
    if "--calibrate" in command:
        command.remove("--calibrate")
    return dict(json.loads(done.stdout))


def run(overrides: tuple[str, ...], folder: Path) -> tuple[Counter[str], dict[str, str], int]:
    """Seconds of the processor by kind of unit, the stage of each, and bytes that lie in the run's folder."""
    recipe = load_corpus(str(DEMO.parent / "corpus.yaml"), overrides)
    done = run_corpus(recipe, InThisProcess)
    stages = {unit.work: unit.stage for unit in done.units.values()}
    took = Counter[str]()
    for unit in done.units.values():
        took[unit.work] += RunFolder(Path(recipe.run)).record(unit.name).processor_seconds
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return took, stages, size


def show(lines: int, what: str, said: float, took: float) -> None:
    print(f"{lines:>9,} {what:<14} {said:>7.2f} s {took:>7.2f} s   {said / took:.2f}", flush=True)


if __name__ == "__main__":
    main()
