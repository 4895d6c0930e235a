"""What a student learns from a teacher, on text of another kind: recipes/distillation.yaml, and an encoder of
recipes/one-language.yaml that is mapped to the teacher afterwards (`SentenceEncoder.map_to`).

    python benchmarks/distillation.py --data DIR [--run FOLDER] [--mapped FOLDER] [--set trainer.steps=600]

Trains both on the pairs under DIR (lafand/) in one thread, and prints the processor's minutes and the xsim
error (the share of sentences whose translation is not the nearest) on ntrex128/: of the teacher alone, of the
students alone, and of their Igbo against the teacher's English and French. With --run or --mapped, of runs
that are there, and of those alone.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.evaluation.xsim import xsim
from mexma_cli.text.lines import read_lines

PAIRS = "lafand/train.ibo_Latn-eng.tsv.gz"
ALONE = f"""
extends: one-language
name: igbo
data:
  languages: [ibo_Latn]
  corpora: [{{name: lafand, format: tsv, path: {PAIRS}, languages: [ibo_Latn]}}]
encoder: {{tokenizer: {{vocabulary: 30000, words: 24000, lowercase: true, latin: true}}}}
trainer: {{steps: 200}}
dev: {{languages: [ibo_Latn]}}
"""
"""The recipe of a student that learns without a teacher."""


def train(recipe: str, data: Path, folder: Path, overrides: list[str]) -> Path:
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
        words = [sys.executable, "-m", "mexma_cli", "-q", command, recipe, *said]
        subprocess.run(words, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"}, stdout=sys.stderr)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"{seconds / 60:.1f} minutes of a processor\n")
    return folder / "run"


def mapped(data: Path, run: Path) -> SentenceEncoder:
    """The run's encoder, mapped to mini by both sides of the pairs that it was trained on."""
    student = SentenceEncoder.load(run, "cpu")
    sides = zip(*(line.split("\t")[:2] for line in read_lines(data / PAIRS)), strict=True)
    igbo, english = (list(side) for side in sides)
    vectors = SentenceEncoder.load("mini", "cpu").embed(english)
    student.map_to([*igbo, *english], np.tile(vectors, (2, 1)))
    return student


def measure(data: Path, students: dict[str, SentenceEncoder]) -> None:
    """Print the table."""
    teacher = SentenceEncoder.load("mini", "cpu")
    igbo, english, french = (
        list(read_lines(data / f"ntrex128/{code}.txt.gz")) for code in ("ibo_Latn", "eng_Latn", "fra_Latn")
    )
    rows = [("the teacher, mini", teacher, "the teacher", teacher)]
    for name, student in students.items():
        rows += [(name, student, "it", student), (name, student, "the teacher", teacher)]
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
    parser.add_argument("--mapped", type=Path)
    parser.add_argument("--set", action="append", default=[], dest="overrides")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run, alone, students = arguments.run, arguments.mapped, {}
        if not run and not alone:
            run = train("distillation", arguments.data, Path(folder) / "a", arguments.overrides)
            (Path(folder) / "alone.yaml").write_text(ALONE)
            recipe = str(Path(folder) / "alone.yaml")
            alone = train(recipe, arguments.data, Path(folder) / "b", arguments.overrides)
        if run:
            students["the student"] = SentenceEncoder.load(run, "cpu")
        if alone:
            students["the one that learned alone"] = SentenceEncoder.load(alone, "cpu")
            students["the same, mapped"] = mapped(arguments.data, alone)
        measure(arguments.data, students)


if __name__ == "__main__":
    main()
