"""What `mexma new-language` makes of ten thousand pairs: the table of docs/how-to/language.md.

    python benchmarks/new_language.py hau_Latn mal_Mlym hye_Armn --data DIR [--set trainer.precision=fp32]

Takes a language's pairs with English under DIR (lafand/, tico19/, stories/, and by a hash of their content so
many of bible/, its train part, that there are --pairs in all), runs the command on them in one thread, and
prints its CPU minutes, dev xsim error and mining F1, and the xsim error on ntrex128/, which is other text.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.evaluation.xsim import xsim
from mexma_cli.text.duplicates import pair_hash
from mexma_cli.text.lines import read_lines

Pair = tuple[str, str]


def tables(data: Path, code: str) -> Iterator[Pair]:
    """The pairs of the corpora that are tables."""
    for name in ("lafand/train.", "tico19/dev.", "stories/"):
        path = data / f"{name}{code}-eng.tsv.gz"
        for line in read_lines(path) if path.is_file() else ():
            source, target, *_ = line.split("\t")
            yield source, target


def verses(data: Path, code: str) -> Iterator[Pair]:
    """The Bible's verses but for its dev books."""
    names = [f"{code}.txt.gz", "eng_Latn.txt.gz", "split.txt"]
    for source, target, part in zip(*(read_lines(data / "bible" / name) for name in names), strict=True):
        if source and target and part == "train":
            yield source, target


def measured(code: str, data: Path, count: int, overrides: list[str], folder: Path) -> list[str]:
    """A row of the table."""
    own = list(tables(data, code))
    pairs = own + sorted(verses(data, code), key=lambda pair: pair_hash(*pair))[: max(0, count - len(own))]
    text, run = folder / f"{code}.tsv", folder / code
    text.write_text("".join(f"{source}\t{target}\n" for source, target in pairs), encoding="utf-8")
    command = [sys.executable, "-m", "mexma_cli", "-q", "new-language", code, text, "-o", run]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    said = [part for override in overrides for part in ("--set", override)]
    done = subprocess.run([*command, *said], check=True, capture_output=True, text=True, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    minutes = (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / 60
    numbers = re.search(r"error +(\S+)%.*?F1 +(\S+) ", done.stdout, re.DOTALL)
    assert numbers is not None, done.stdout
    encoder = SentenceEncoder.load(str(run), "cpu")
    x, y = (encoder.embed(list(read_lines(data / f"ntrex128/{name}.txt.gz"))) for name in (code, "eng_Latn"))
    ntrex = xsim(x, y).error_rate
    return [code, f"{len(pairs):,}", f"{minutes:.1f}", *numbers.groups(), f"{ntrex:.1f}"]


def main() -> None:
    """Print a row for each language."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("languages", nargs="+")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--pairs", type=int, default=10_000)
    parser.add_argument("--set", action="append", default=[], dest="overrides")
    arguments = parser.parse_args()
    print("| language | pairs | CPU minutes | dev xsim error | mining F1 | NTREX-128 xsim error |")
    print("| --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        for code in arguments.languages:
            row = measured(code, arguments.data, arguments.pairs, arguments.overrides, Path(folder))
            print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
