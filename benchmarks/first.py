"""The first second of a command: how long the whole process takes on small texts, and what it imports.

    python benchmarks/first.py

On the demo's 3,000 lines a side, and on made-up vectors of 10,000 and 20,000 rows a side. Seconds are of the
whole process, the least of five (TRIES), by the clock on a machine that does nothing else. The last line
says what compiling takes at first use, in seconds of the processor, where nothing compiled is on the disk.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from mexma_cli.reporting.tables import aligned_columns
from mexma_cli.stages.doctor.warm import WORK

ROOT = Path(__file__).parent.parent
HEAVY = ("torch", "transformers", "numba", "faiss", "scipy")
SAY = f"""
import atexit, sys
loaded = lambda: [name for name in {HEAVY} if name in sys.modules]
atexit.register(lambda: print("imported:", *loaded(), file=sys.stderr))
from mexma_cli.main import cli
cli(prog_name="mexma")
"""
TRIES = int(os.environ.get("TRIES", 5))
COMMANDS = (
    "embed --lang spa few.txt -o few.emb",
    "mine spa.emb eng.emb --margin ratio -o pairs.tsv",
    "knn spa.emb eng.emb -o near.knn",
    "score spa.emb eng.emb -o scored.tsv",
    "search spa.emb eng.emb -o found.tsv",
    "tune pairs.tsv --gold gold.tsv",
    "align spa.emb eng.emb -o aligned.tsv",
    "mine x.emb y.emb -o many.tsv",
    "mine u.emb v.emb -o more.tsv",
    "--help",
)


def run(command: str) -> tuple[float, float, str]:
    """Seconds by the clock and of the processor, and what was imported."""
    words, began, used = command.split(), time.perf_counter(), os.times()
    done = subprocess.run([sys.executable, "-c", SAY, *words], text=True, capture_output=True)
    seconds, now = time.perf_counter() - began, os.times()
    if done.returncode:
        sys.exit(f"{command}\n{done.stderr}")
    imported = next(line for line in done.stderr.splitlines() if line.startswith("imported:"))
    cpu = now.children_user + now.children_system - used.children_user - used.children_system
    return seconds, cpu, imported.removeprefix("imported:").strip() or "none of these"


def measured(command: str) -> list[str]:
    best = (np.inf, np.inf, "")
    for _ in range(TRIES):
        if "-o" in command:
            output = Path(command.split()[-1])
            shutil.rmtree(output, ignore_errors=True)
            output.unlink(missing_ok=True)
        found = run(command)
        best = min(best[0], found[0]), min(best[1], found[1]), found[2]
    return [f"mexma {command}", f"{best[0]:.2f}", f"{best[1]:.2f}", best[2]]


def make_stores() -> None:
    """The demo's texts embedded, and stores of vectors that nobody embedded."""
    for side in ("spa", "eng"):
        shutil.copy(ROOT / "examples/spa-eng" / f"{side}.txt", f"{side}.txt")
        run(f"embed --lang {side} {side}.txt")
    shutil.copy(ROOT / "examples/spa-eng/gold.tsv", "gold.tsv")
    Path("few.txt").write_text("".join(Path("spa.txt").read_text().splitlines(keepends=True)[:100]))
    rng = np.random.default_rng(0)
    topics = rng.standard_normal((500, 320))
    for name, rows in {"x": 10_000, "y": 10_000, "u": 20_000, "v": 20_000}.items():
        language = "spa" if name in "xu" else "eng"
        vectors = topics[rng.integers(0, 500, rows)] + 0.8 * rng.standard_normal((rows, 320))
        np.save(f"{name}.npy", vectors.astype(np.float32))
        Path(f"{name}.txt").write_text("".join(f"{language} {row}\n" for row in range(rows)))
        run(f"convert {name}.npy --text {name}.txt --lang {language} -o {name}.emb")


COMPILE = """
import sys, time
from mexma_cli.stages.doctor.warm import WORK
from numba import njit
from numba.core.event import Listener, register

class Compiling(Listener):
    depth, spent = 0, 0.0

    def on_start(self, event):
        self.began = self.began if self.depth else time.process_time()
        self.depth += 1

    def on_end(self, event):
        self.depth -= 1
        self.spent += 0 if self.depth else time.process_time() - self.began

began = time.process_time()
njit(lambda: None)()  # loads what compiling needs
compiling = Compiling()
compiling.spent += time.process_time() - began
register("numba:compile", compiling)
for work in sys.argv[1:]:
    WORK[work]()
print(compiling.spent)
"""


def compiling(*work: str) -> str:
    """The processor's seconds for what one process compiles that does some work."""
    with tempfile.TemporaryDirectory() as loops:
        done = subprocess.run(
            [sys.executable, "-c", COMPILE, *work],
            env=os.environ | {"NUMBA_CACHE_DIR": loops},
            check=True,
            text=True,
            capture_output=True,
        )
    return f"{work[0] if len(work) == 1 else 'all in one process'} {float(done.stdout):.1f} s"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.environ["PYTHONPATH"] = str(ROOT)
        os.chdir(folder)
        make_stores()
        table = [["command", "seconds", "of processor", "imports"], *map(measured, COMMANDS)]
        print("\n".join(aligned_columns(table, 1)))
        print("compiled at first use:", ", ".join([*map(compiling, WORK), compiling(*WORK)]))
