"""What reading with checksums costs, where it weighs most: mining with neighbours that were kept.

    python benchmarks/checksums.py [--rows 50000] [--dim 320] [--times 3]

Two stores of made-up vectors, their neighbours, and then `mexma mine --neighbours` with and
without --no-verify in turn. Printed is the median processor time (user and system) of either.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

import numpy as np

MEXMA = (sys.executable, "-m", "mexma_cli")


def mexma(*words: str, where: str) -> float:
    """Run a command; its processor time in seconds."""
    process = subprocess.Popen([*MEXMA, *words], cwd=where, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"mexma {' '.join(words)} failed")
    return used.ru_utime + used.ru_stime


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


if __name__ == "__main__":
    main()
