"""What the commands cost as their input grows: processor time and memory at four sizes, each twice the last.

    OMP_NUM_THREADS=1 python benchmarks/growth.py --data DIR [--quick] [--only embed mine ...]

The text is verses of DIR/bible, French and English, again and again, with a number behind them where there
are too few. Every command is a process of its own, with `mini`. Seconds are those of the processor, of the
command and all of its workers, and memory is the most that one of these processes held, both as the system
counts them. The exponent p is that of a + b n^p through the last three sizes, so that what a process costs
at its start is left out: 1 where twice the lines take twice the time, 2 where they take four times as long.
Small sizes and a busy machine blur it. `run` is a run from text to pairs, beside what its dry run says of
it, and `run again` the same command when all is done.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from itertools import count, islice
from pathlib import Path

from mexma_cli.text.lines import read_lines

LARGEST, QUICK = 80_000, 16_000
CODES = "fra_Latn", "eng_Latn"
TEXTS, STORES = ["fra_Latn.txt", "eng_Latn.txt"], ["fra_Latn.emb", "eng_Latn.emb"]
COMMANDS = {
    "split": ["split", TEXTS[0], "--lang", CODES[0], "-o", "split.txt"],
    "langid": ["langid", TEXTS[0], "-o", "langid.tsv"],
    "filter": ["filter", *TEXTS, "--source-lang", CODES[0], "--target-lang", CODES[1], "-o", "filtered.tsv"],
    "embed": ["embed", TEXTS[0], "-o", STORES[0]],
    "embed eng": ["embed", TEXTS[1], "-o", STORES[1]],
    "align": ["align", *STORES, "-o", "aligned.tsv"],
    "knn": ["knn", *STORES, "-k", "4", "-o", "near.knn"],
    "mine": ["mine", *STORES, "--score", "margin", "-o", "mined.tsv"],
    "mine --score probability": ["mine", *STORES, "--score", "probability", "-o", "probable.tsv"],
    "score": ["score", *STORES, "-o", "scored.tsv"],
    "tune": ["tune", *STORES],
    "run": ["run", "recipe.yaml"],
    "run again": ["run", "recipe.yaml"],
}
"""In this order: later ones read what earlier ones write."""


def write_inputs(data: Path, lines: int, folder: Path) -> None:
    verses = zip(*(read_lines(data / "bible" / f"{code}.txt.gz") for code in CODES), strict=True)
    pairs = [pair for pair in verses if all(map(str.strip, pair))]
    numbered = ([f"{line} {time}" if time else line for line in pair] for time in count() for pair in pairs)
    columns = zip(*islice(numbered, lines), strict=True)
    for name, column in zip(TEXTS, columns, strict=True):
        (folder / name).write_text("".join(f"{line}\n" for line in column), encoding="utf-8")
    languages = {code: {"input": text} for code, text in zip(CODES, TEXTS, strict=True)}
    recipe = {"kind": "corpus", "name": "growth", "run": "run", "root": ".", "languages": languages}
    (folder / "recipe.yaml").write_text(json.dumps(recipe), encoding="utf-8")


def measured(command: list[str], folder: Path) -> tuple[float, float]:
    """Processor seconds, and megabytes of the largest process."""
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "mexma_cli", "-q", *command], cwd=folder, stdout=log, stderr=log
        )
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(command)}: {(folder / 'log').read_text()}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss * (1 if sys.platform == "darwin" else 1024) / 1e6


def exponent(seconds: list[float]) -> str:
    """That of the growth from the last size but two; a dash where the cost does not grow."""
    before, after = seconds[-2] - seconds[-3], seconds[-1] - seconds[-2]
    return f"{math.log2(after / before):.2f}" if min(before, after) > 0 else "-"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--quick", action="store_true", help="a fifth of the lines: some minutes")
    parser.add_argument("--only", nargs="+", choices=COMMANDS, metavar="COMMAND")
    settings = parser.parse_args()
    sizes = [(QUICK if settings.quick else LARGEST) >> halved for halved in (3, 2, 1, 0)]
    needed = {"embed", "embed eng", *(settings.only or COMMANDS)}
    needed |= {"run"} & {name.split()[0] for name in needed}
    with tempfile.TemporaryDirectory(prefix="mexma-benchmark-") as name:
        folders = [Path(name) / str(size) for size in sizes]
        for folder, size in zip(folders, sizes, strict=True):
            folder.mkdir()
            write_inputs(settings.data, size, folder)
        measured(["doctor", "--warm"], Path(name))  # compiles
        print(f"{'processor s, MB':<26}" + "".join(f"{size:>16,}" for size in sizes) + "  exponent")
        for title, command in COMMANDS.items():
            if title in needed:
                if title == "run":
                    said = [dry_run(folder) for folder in folders]
                    show("run --dry-run", said)
                show(title, [measured(command, folder) for folder in folders])


def dry_run(folder: Path) -> tuple[float, float]:
    """What `mexma run --dry-run` says that `measured` will find."""
    command = [sys.executable, "-m", "mexma_cli", "run", "recipe.yaml", "--dry-run", "--calibrate", "--json"]
    said = json.loads(subprocess.run(command, cwd=folder, check=True, capture_output=True).stdout)
    return 3600 * sum(said["processor"].values()), said["memory"] / 1e6


def show(title: str, costs: list[tuple[float, float]]) -> None:
    cells = "".join(f"{seconds:>9.2f} {size:>6,.0f}" for seconds, size in costs)
    print(f"{title:<26}{cells}  {exponent([seconds for seconds, _ in costs]):>8}", flush=True)


if __name__ == "__main__":
    main()
