"""What the exact search gains by estimates in the directions of most variance.

    python benchmarks/directions.py [--stores X.emb Y.emb] [--falls 0 0.5 1 1.5] [--rows 100000] [-k 4]
        [--precision float32 bfloat16]

On two stores, or on made-up vectors whose variance falls from direction to direction by the power of half of
FALLS, with translations planted for 60 % of the rows. Each search is run with all directions and with as many
as the search chooses, in turn. Printed is the processor time (user and system) of either, and whether the
neighbours are the same bytes.
"""

from __future__ import annotations

import argparse
import dataclasses
import time

import numpy as np

from mexma_cli.knn import arithmetic, sweep
from mexma_cli.knn.arithmetic import BFLOAT16, FLOAT32, Arithmetic
from mexma_cli.knn.blocks import Sample
from mexma_cli.knn.exact import knn
from mexma_cli.knn.neighbours import Neighbours
from mexma_cli.knn.sides import Side
from mexma_cli.store.reader import EmbeddingStore

KINDS = {"float32": FLOAT32, "bfloat16": BFLOAT16}


def made_up(rows: int, dim: int, falls: float) -> tuple[np.ndarray, np.ndarray]:
    """Two sides, float32 [rows, dim]."""
    random = np.random.default_rng(0)
    spectrum = np.arange(1, dim + 1, dtype=np.float32) ** (-falls / 2)
    x, y = (random.standard_normal((rows, dim), dtype=np.float32) * spectrum for _ in range(2))
    planted = int(0.6 * rows)
    y[:planted] = x[:planted] + 0.5 * y[:planted]
    return x, y


def searched(x: np.ndarray, y: np.ndarray, k: int, chosen: Arithmetic) -> tuple[float, Neighbours]:
    """Processor seconds of a search in an arithmetic, and what it found."""
    choose, sweep.choose_arithmetic = sweep.choose_arithmetic, lambda *_: chosen
    began = time.process_time()
    try:
        found = knn(x, y, k)
    finally:
        sweep.choose_arithmetic = choose
    return time.process_time() - began, found


def directions(x: np.ndarray, y: np.ndarray, k: int, kind: Arithmetic) -> int | None:
    """How many directions the search takes where there is only this kind of product."""
    kinds, arithmetic.KINDS = arithmetic.KINDS, (kind,)
    try:
        sample = Sample(Side(x, None), Side(y, None))
        return sweep.arithmetic_for(sample, (len(x), len(y)), k).width
    finally:
        arithmetic.KINDS = kinds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--stores", nargs=2)
    parser.add_argument("--falls", nargs="*", type=float, default=[])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("-k", type=int, default=4)
    parser.add_argument("--precision", nargs="+", choices=KINDS, default=list(KINDS))
    asked = parser.parse_args()
    sides = {}
    if asked.stores:
        opened = [EmbeddingStore.open(store) for store in asked.stores]
        sides["stores"] = lambda: [s.vectors(0, min(s.rows, asked.rows)).astype(np.float32) for s in opened]
    for falls in asked.falls:
        sides[f"made up, {falls:g}"] = lambda falls=falls: made_up(asked.rows, asked.dim, falls)
    small = np.random.default_rng(0).standard_normal((3000, 64), dtype=np.float32)
    print("| vectors | product | directions | all, s | these, s | times as fast | same bytes |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name, make in sides.items():
        x, y = make()
        for precision in asked.precision:
            kind = KINDS[precision]
            searched(small, small, asked.k, kind)  # compiles
            width = directions(x, y, asked.k, kind)
            whole, wanted = searched(x, y, asked.k, kind)
            if width is None:
                print(f"| {name} | {precision} | all {x.shape[1]} | {whole:.1f} | | | |", flush=True)
                continue
            narrow, found = searched(x, y, asked.k, dataclasses.replace(kind, width=width))
            same = all(
                getattr(found, field.name).tobytes() == getattr(wanted, field.name).tobytes()
                for field in dataclasses.fields(Neighbours)
            )
            print(
                f"| {name} | {precision} | {width} of {x.shape[1]} | {whole:.1f} | {narrow:.1f} "
                f"| {whole / narrow:.2f} | {'yes' if same else 'NO'} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
