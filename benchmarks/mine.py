"""Neighbours in both directions: ours against faiss the way LASER uses it, as a ratio from one run.

    python benchmarks/mine.py [--rows 20000] [--dim 1024] [-k 16] [--threads 2] [--repeats 3]

The vectors are made up: unit vectors around shared topics, and for 60 % of the rows a noisy copy in the other
file. LASER's way is a flat faiss index of the one side asked about the other, and the same again the other
way round. Both do their own normalising. Rounds are interleaved, so that other load hits both; the median
counts. The matrix product alone, once, is timed too: no exact float32 method can be faster than that. With
--threads 1 it is processor time that is counted, which other load hardly changes.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import TypeVar

import faiss
import numpy as np
import torch

from mexma_cli.mining.neighbours import X_TILE, Y_TILE, knn

Found = TypeVar("Found")


def made_up(rows: int, dim: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    topics = rng.standard_normal((max(rows // 50, 1), dim), dtype=np.float32)
    x = topics[rng.integers(0, len(topics), rows)] + rng.standard_normal((rows, dim), dtype=np.float32)
    y = topics[rng.integers(0, len(topics), rows)] + rng.standard_normal((rows, dim), dtype=np.float32)
    planted = rng.permutation(rows)[: int(0.6 * rows)]
    y[rng.permutation(rows)[: len(planted)]] = x[planted] + 0.8 * rng.standard_normal(
        (len(planted), dim), dtype=np.float32
    )
    return x, y


def laser_way(x: np.ndarray, y: np.ndarray, k: int) -> list[np.ndarray]:
    x, y = x.copy(), y.copy()
    faiss.normalize_L2(x)
    faiss.normalize_L2(y)
    ids = []
    for queries, base in ((x, y), (y, x)):
        index = faiss.IndexFlatIP(base.shape[1])
        index.add(base)
        ids.append(index.search(queries, k)[1])
    return ids


def product_only(x: np.ndarray, y: np.ndarray) -> None:
    left, right = torch.from_numpy(x), torch.from_numpy(y)
    for top in range(0, len(left), X_TILE):
        for start in range(0, len(right), Y_TILE):
            torch.matmul(left[top : top + X_TILE], right[start : start + Y_TILE].T)


def timed(work: Callable[[], Found], threads: int) -> tuple[float, Found]:
    clock = time.process_time if threads == 1 else time.perf_counter
    start = clock()
    result = work()
    return clock() - start, result


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--dim", type=int, default=1024)
    parser.add_argument("-k", type=int, default=16)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    settings = parser.parse_args()
    torch.set_num_threads(settings.threads)
    faiss.omp_set_num_threads(settings.threads)
    x, y = made_up(settings.rows, settings.dim)
    times: dict[str, list[float]] = {"ours": [], "laser": [], "product": []}
    for _ in range(settings.repeats):
        seconds, ours = timed(lambda: knn(x, y, settings.k), settings.threads)
        times["ours"].append(seconds)
        seconds, theirs = timed(lambda: laser_way(x, y, settings.k), settings.threads)
        times["laser"].append(seconds)
        times["product"].append(timed(lambda: product_only(x, y), settings.threads)[0])
    medians = {name: statistics.median(seconds) for name, seconds in times.items()}
    same = [
        float((np.sort(a, axis=1) == np.sort(b, axis=1)).all(axis=1).mean())
        for a, b in zip((ours.forward_ids, ours.backward_ids), theirs, strict=True)
    ]
    print(f"{settings.rows} x {settings.rows} x {settings.dim}, k {settings.k}, {settings.threads} threads")
    print(f"ours              {medians['ours']:8.2f} s")
    print(f"faiss, both ways  {medians['laser']:8.2f} s   {medians['laser'] / medians['ours']:.2f} x ours")
    print(
        f"one product alone {medians['product']:8.2f} s   {medians['product'] / medians['ours']:.2f} x ours"
    )
    print(f"rows with the same neighbours as faiss: {100 * min(same):.2f} %")


if __name__ == "__main__":
    main()
