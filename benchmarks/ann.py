"""Approximate neighbours against exact ones: seconds, and the fraction of the neighbours found, side by side.

    python benchmarks/ann.py [SOURCE.emb TARGET.emb] [--rows 20000] [--dim 256] [-k 16] [--threads 2]
                             [--recall 0.95] [--index IVF1024,PQ128x4fs --index HNSW32,SQ8 ...]

Without stores the vectors are those that benchmarks/mine.py makes up; real ones are easier for some indexes
and harder for others. Both directions are asked for, and training and filling the index count. Recall is
counted over all rows against what `knn` finds, not estimated: of the k neighbours, and of the nearest alone;
beside it what `ann` measured on its sample. With --threads 1 it is processor time that is counted, which
other load hardly changes.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from mine import make_up

from mexma_cli.errors import MexmaError
from mexma_cli.mining.ann import Approximate, ann
from mexma_cli.mining.faiss_index import choose
from mexma_cli.mining.neighbours import Neighbours, knn
from mexma_cli.store.embeddings import EmbeddingStore

Found = TypeVar("Found")


def timed(work: Callable[[], Found], threads: int) -> tuple[float, Found]:
    clock = time.process_time if threads == 1 else time.perf_counter
    start = clock()
    result = work()
    return clock() - start, result


def made_up(rows: int, dim: int) -> tuple[np.ndarray, np.ndarray]:
    with tempfile.TemporaryDirectory() as folder:
        make_up(Path(folder), rows, dim)
        x, y = (np.load(Path(folder) / f"{side}.npy") for side in "xy")
        return x, y


def head(path: str, rows: int) -> np.ndarray:
    store = EmbeddingStore.open(path)
    return store.vectors(0, min(rows, store.rows))


def recall(found: Neighbours, exact: Neighbours, k: int) -> float:
    """The fraction of the first k exact neighbours that are among the first k found, in both directions."""
    hits, wanted = 0, 0
    for ids, true in (
        (found.forward_ids, exact.forward_ids),
        (found.backward_ids, exact.backward_ids),
    ):
        for start in range(0, len(ids), 4096):
            cut = slice(start, start + 4096)
            hits += int((true[cut, :k, None] == ids[cut, None, :k]).sum())
        wanted += true[:, :k].size
    return hits / wanted


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("stores", nargs="*", help="two embedding stores")
    parser.add_argument("--rows", type=int, default=20_000, help="at most, a side")
    parser.add_argument("--dim", type=int, default=256)
    parser.add_argument("-k", type=int, default=16)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--recall", type=float, default=0.95)
    parser.add_argument("--memory", type=float, help="GB")
    parser.add_argument(
        "--index", action="append", help="FAISS factory string; may be repeated. Default: as by size"
    )
    settings = parser.parse_args()
    if len(settings.stores) not in (0, 2):
        parser.error("no store, or two")
    torch.set_num_threads(settings.threads)
    if settings.stores:
        x, y = (head(path, settings.rows) for path in settings.stores)
    else:
        x, y = made_up(settings.rows, settings.dim)
    k, memory = settings.k, settings.memory and int(settings.memory * 1e9)
    warm = np.random.default_rng(0).standard_normal((512, x.shape[1]), dtype=np.float32)
    ann(warm, warm, 2, index="IVF8,SQ8")  # compiled code is loaded before the clock runs
    base, exact = timed(lambda: knn(x, y, k, memory=memory), settings.threads)
    what = ", ".join(settings.stores) or "made-up vectors"
    print(f"{what}: {len(x):,} x {len(y):,} x {x.shape[1]}, k {k}, {settings.threads} threads")
    print(f"{'index':32} {'effort':>12} {'hits':>5} {'s':>8} {'x exact':>8} {'recall':>7} {'@1':>6} sample")
    print(f"{'exact':32} {'':12} {'':5} {base:8.1f} {1:8.2f} {1:7.3f} {1:6.3f}", flush=True)
    for index in settings.index or [choose(len(y), x.shape[1])]:

        def work(index: str = index) -> Approximate:
            return ann(x, y, k, index=index, recall=settings.recall, memory=memory)

        try:
            seconds, found = timed(work, settings.threads)
        except MexmaError as error:
            print(f"{index:32} {error.message}")
            continue
        print(
            f"{found.forward.index:32} {found.forward.effort:>12} {found.forward.hits:5} {seconds:8.1f} "
            f"{base / seconds:8.2f} {recall(found.neighbours, exact, k):7.3f} "
            f"{recall(found.neighbours, exact, 1):6.3f} {found.recall:6.3f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
