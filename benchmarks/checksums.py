"""What reading with checksums costs, where it weighs most: mining with kept neighbours, and loading `mini`.

    python benchmarks/checksums.py [--rows 50000] [--dim 320] [--times 3]

Two stores of made-up vectors, their neighbours, and then `mexma mine --neighbours` with and
without --no-verify in turn. Printed is the median processor time (user and system) of either; and that of
comparing the files of `mini`, and of loading it and embedding a line, in a process that has imported all.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.encoder.loading.folder import BUNDLED, check_whole

MINI = BUNDLED / "mini"
MEXMA = (sys.executable, "-m", "mexma_cli")


def mexma(*words: str, where: str) -> float:
    """Run a command; its processor time in seconds."""
    process = subprocess.Popen([*MEXMA, *words], cwd=where, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"mexma {' '.join(words)} failed")
    return used.ru_utime + used.ru_stime


def processor(work: Callable[[], object]) -> float:
    """The processor time of some work, in seconds."""
    began = time.process_time()
    work()
    return time.process_time() - began


def load() -> None:
    """All of it: the comparison, too."""
    SentenceEncoder.load("mini").embed(["Hola."])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--dim", type=int, default=320)
    parser.add_argument("--times", type=int, default=3)
    asked = parser.parse_args()
    random = np.random.default_rng(0)
    x = random.standard_normal((asked.rows, asked.dim), dtype=np.float32)
    y = x + random.standard_normal(x.shape, dtype=np.float32)
    with tempfile.TemporaryDirectory() as folder:
        for name, vectors in (("x", x), ("y", y)):
            unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
            np.save(f"{folder}/{name}.npy", unit.astype(np.float16))
            lines = (f"{name} sentence number {row} of a text\n" for row in range(asked.rows))
            Path(folder, f"{name}.txt").write_text("".join(lines))
            mexma("convert", f"{name}.npy", "--text", f"{name}.txt", "-o", f"{name}.emb", where=folder)
        mexma("knn", "x.emb", "y.emb", "-o", "xy.knn", where=folder)
        mine = ("mine", "x.emb", "y.emb", "--neighbours", "xy.knn", "-o", "pairs.tsv")
        taken: dict[str, list[float]] = {"with checksums": [], "--no-verify": []}
        for _ in range(asked.times):
            taken["with checksums"].append(mexma(*mine, where=folder))
            taken["--no-verify"].append(mexma(*mine, "--no-verify", where=folder))
    for name, seconds in taken.items():
        print(f"{name:14}  {median(seconds):.2f} s")
    for name, work in (("of `mini`", lambda: check_whole(MINI)), ("loading it", load)):
        print(f"{name:14}  {median(processor(work) for _ in range(asked.times)):.3f} s")


if __name__ == "__main__":
    main()
