"""How fast one version of mexma is beside another: the same commands in both checkouts, by turns.

    python benchmarks/speed.py OLD NEW [--rounds 5] [--only PART ...]

Each command is a process of its own, and takes all cores (else set OMP_NUM_THREADS). Printed are the medians
of its seconds, by the clock and of the processor, and the ratio new / old of both: below 1 is faster. On a
busy machine only the processor's ratio means something. All that the commands read is written once, by OLD.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np
import yaml

sys.path.insert(0, str(Path(__file__).parent))
from same_cases import ROOT, training, write_encoder

FEW, MANY = 20_000, 100_000
MODEL = "--model small --dtype fp32"
COMMANDS = {
    "the first second": "--help",
    "embed a few lines": "embed --lang spa few.txt -o out.emb",
    "mine the demo": "mine demo-spa.emb demo-eng.emb -o out.tsv",
    "search the demo": "search demo-spa.emb demo-eng.emb -o out.tsv",
    "embed, mini": "embed --lang spa spa.txt -o out.emb",
    "embed, a small transformer": f"embed {MODEL} some.txt -o out.emb",
    "embed, bfloat16": "embed --model small --dtype bf16 some.txt -o out.emb",
    "mine 20,000 rows of mini": "mine spa-few.emb eng-few.emb -o out.tsv",
    "mine 20,000 made-up rows": "mine x-few.emb y-few.emb -o out.tsv",
    "mine 100,000 rows of mini": "mine spa.emb eng.emb -o out.tsv",
    "mine 100,000 made-up rows": "mine x.emb y.emb -o out.tsv",
    "mine 100,000 with an index": "mine x.emb y.emb --index IVF512,PQ80x4fs --recall 0.8 -o out.tsv",
    "train bag and mexma": "train recipe.yaml",
    "align one document": "align gold.spa gold.eng -o out.tsv",
}
"""What is measured; the output is removed before each run."""
OUTPUTS = ("out.emb", "out.tsv", "out")


def run(checkout: Path, command: str) -> tuple[float, float]:
    """Seconds by the clock and of the processor."""
    for name in OUTPUTS:
        path = Path(name)
        if path.is_dir():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)
    began, used = perf_counter(), os.times()
    done = subprocess.run(
        [sys.executable, "-m", "mexma_cli", *command.split()],
        env=os.environ | {"PYTHONPATH": str(checkout), "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
    )
    seconds, now = perf_counter() - began, os.times()
    if done.returncode:
        sys.exit(f"{checkout}: mexma {command}\n{done.stderr[-2000:]}")
    cpu = now.children_user + now.children_system - used.children_user - used.children_system
    return seconds, cpu


def write_inputs(old: Path, commands: dict[str, str]) -> None:
    """Write what the commands read: the demo's texts, more text, vectors, an encoder, a recipe."""
    read = " ".join(commands.values())
    gold = (ROOT / "examples/spa-eng/gold.tsv").read_text(encoding="utf-8")
    Path("gold.tsv").write_text(gold, encoding="utf-8")
    for side, name in enumerate(("spa", "eng")):
        text = (ROOT / f"examples/spa-eng/{name}.txt").read_text(encoding="utf-8").splitlines()
        rng = random.Random(side)
        pairs = [" ".join(rng.sample(text, 2)) for _ in range(MANY)]
        _write(f"{name}.txt", pairs)
        _write(f"demo-{name}.txt", text)
        known = [line.split("\t")[side] for line in gold.splitlines()]
        _write(f"gold.{name}", known)
        _write(f"few.{name}", known[:200])
        run(old, f"embed --lang {name} demo-{name}.txt")
        if f"{name}.emb" in read:
            run(old, f"embed --lang {name} {name}.txt")
        if f"{name}-few.emb" in read:
            _write(f"{name}-few.txt", pairs[:FEW])
            run(old, f"embed --lang {name} {name}-few.txt")
    _write("few.txt", text[:100])
    _write("some.txt", text[:2000])
    if "x.emb" in read or "x-few.emb" in read:
        _write_vectors(old)
    write_encoder(Path("small"), text, width=256, layers=4)
    recipe = training(
        "out", [{"name": "bag"}, {"name": "mexma", "head": {"layers": 2, "heads": 4, "ffn": 256}}]
    )
    recipe["data"] |= {"root": ".", "store": "prepared"}
    recipe["encoder"]["new"] = {"layers": 4, "width": 128, "heads": 4, "ffn": 256}
    recipe["trainer"] |= {"steps": 15, "batch_pairs": 64, "checkpoint_every": 1000}
    Path("recipe.yaml").write_text(yaml.safe_dump(recipe), encoding="utf-8")
    run(old, "prepare recipe.yaml --workers 1")


def _write_vectors(old: Path) -> None:
    """Stores of made-up vectors, around topics."""
    rng = np.random.default_rng(0)
    topics = rng.standard_normal((500, 320), dtype=np.float32)
    for name, language in (("x", "spa"), ("y", "eng")):
        vectors = topics[rng.integers(0, 500, MANY)] + 0.8 * rng.standard_normal(
            (MANY, 320), dtype=np.float32
        )
        for stem, rows in ((name, MANY), (f"{name}-few", FEW)):
            np.save(f"{stem}.npy", vectors[:rows])
            _write(f"{stem}.txt", [f"{language} {row}" for row in range(rows)])
            run(old, f"convert {stem}.npy --text {stem}.txt --lang {language} -o {stem}.emb")


def _write(name: str, rows: list[str]) -> None:
    Path(name).write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")


def main() -> None:
    """Measure, and print a line for each command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("old", type=lambda path: Path(path).resolve())
    parser.add_argument("new", type=lambda path: Path(path).resolve())
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="+", default=[""], metavar="PART", help="of the commands or names")
    arguments = parser.parse_args()
    chosen = {
        name: command
        for name, command in COMMANDS.items()
        if any(part in name or part in command for part in arguments.only)
    }
    sides = arguments.old, arguments.new
    with tempfile.TemporaryDirectory(prefix="mexma-speed-") as folder:
        os.chdir(folder)
        write_inputs(arguments.old, chosen)
        print(f"{'':27}{'old s':>8}{'new s':>8}{'ratio':>7}{'old cpu':>9}{'new cpu':>8}{'ratio':>7}")
        for name, command in chosen.items():
            for side in sides:
                run(side, command)  # compiles what is not yet
            rounds = [[run(side, command) for side in sides] for _ in range(arguments.rounds)]
            row = ""
            for kind in (0, 1):
                old, new = (median(one[side][kind] for one in rounds) for side in (0, 1))
                row += f"{old:8.2f}{new:8.2f}{new / old:7.2f} "
            print(f"{name:27}{row}", flush=True)


if __name__ == "__main__":
    main()
