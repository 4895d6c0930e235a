"""What a student learns from a teacher: recipes/distillation.yaml, measured on text of another kind.

    python benchmarks/distillation.py --data DIR [--run FOLDER] [--set trainer.steps=600]

Trains on the pairs under DIR (lafand/) in one thread, and prints the processor's minutes and the xsim error
(the share of sentences whose translation is not the nearest) on ntrex128/: of the teacher alone, of the
student alone, and of the student's Igbo against the teacher's English and French. With --run, of a run
that is there.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.evaluation.xsim import xsim
from mexma_cli.text.lines import read_lines


def train(data: Path, folder: Path, overrides: list[str]) -> Path:
    """The run's folder; prints how long it took."""
    keys = [
        f"data.root={data.resolve()}",
        f"data.store={folder / 'data'}",
        f"run={folder / 'run'}",
        *overrides,
    ]
    said = [part for key in keys for part in ("--set", key)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    for command in ("prepare", "train"):
        words = [sys.executable, "-m", "mexma_cli", "-q", command, "distillation", *said]
        subprocess.run(words, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"}, stdout=sys.stderr)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"{seconds / 60:.1f} minutes of a processor\n")
    return folder / "run"


def measure(data: Path, run: Path) -> None:
    """Print the table."""
    teacher, student = SentenceEncoder.load("mini", "cpu"), SentenceEncoder.load(run, "cpu")
    igbo, english, french = (
        list(read_lines(data / f"ntrex128/{code}.txt.gz")) for code in ("ibo_Latn", "eng_Latn", "fra_Latn")
    )
    rows = [
        ("the teacher, mini", teacher, "the teacher", teacher),
        ("the student", student, "the student", student),
        ("the student", student, "the teacher", teacher),
    ]
    print("| Igbo by | English or French by | Igbo-English | Igbo-French |\n| --- | --- | --- | --- |")
    for name, source, other, target in rows:
        errors = [xsim(source.embed(igbo), target.embed(text)).error_rate for text in (english, french)]
        print(f"| {name} | {other} | {errors[0]:.1f} | {errors[1]:.1f} |", flush=True)


def main() -> None:
    """Train, if no run is named, and measure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--run", type=Path)
    parser.add_argument("--set", action="append", default=[], dest="overrides")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run = arguments.run or train(arguments.data, Path(folder), arguments.overrides)
        measure(arguments.data, run)


if __name__ == "__main__":
    main()
