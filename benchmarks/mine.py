"""Mining against its peers, side by side in one run, end to end: neighbours both ways, margins, pairs.

    python benchmarks/mine.py [--rows 50000 100000] [--dim 1024] [-k 16] [--threads 2] [--share 1]
                              [--ann auto IVF1024,PQ256x4fs ...] [--recall 0.95]
    python benchmarks/mine.py --stores fra.emb eng.emb --rows 100000 --peers none
    python benchmarks/mine.py --rows 25000 50000 100000 200000 --peers none --ann none

--ann names approximate indexes (`auto`: that of the size; `none`), trained and filled within their time.
Recall is that of the k neighbours of all rows in both directions, counted against those of the exact search.

Peers, each in a process of its own on the same vectors:
  laser   LASER's mine_bitexts.py: two flat faiss indexes, candidates scored one by one in Python. With
          --laser DIR the program of a checkout is run as it is, else its algorithm is made again here.
  faiss   faiss.knn in both directions, then our margins and matching.
  st      the example of sentence-transformers: 128 principal components, an IVF index with 3 probes.
  torch   products and `topk` in both directions, on the GPU if there is one, then our margins and matching.

The vectors are made up: around 2 % as many topics as rows, and for 60 % of the rows a noisy copy on the other
side; --stores takes the first rows of two embedding stores instead.
--share 0.1 lets laser and faiss answer a tenth of the queries only and multiplies their time: a flat
index takes the same time for each. Memory is what a process took above the two inputs, at its peak.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import runpy
import subprocess
import sys
import tempfile
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from mexma_cli.knn.neighbours import Neighbours

BLOCK = 1 << 14
PEERS = ("laser", "faiss", "st", "torch")


def make_up(folder: Path, rows: int, dim: int) -> None:
    """x.npy and y.npy, float32 [rows, dim], and planted.npy, int64 [p, 2], block by block."""
    rng = np.random.default_rng(0)
    topics = rng.standard_normal((max(rows // 50, 1), dim), dtype=np.float32)
    x = np.lib.format.open_memmap(folder / "x.npy", "w+", np.float32, (rows, dim))
    y = np.lib.format.open_memmap(folder / "y.npy", "w+", np.float32, (rows, dim))
    count = int(0.6 * rows)
    own, theirs = rng.permutation(rows)[:count], np.sort(rng.permutation(rows)[:count])
    for start in range(0, rows, BLOCK):
        size = min(BLOCK, rows - start)
        for side in (x, y):
            noise = rng.standard_normal((size, dim), dtype=np.float32)
            side[start : start + size] = topics[rng.integers(0, len(topics), size)] + noise
    for start in range(0, count, BLOCK):
        part = slice(start, start + BLOCK)
        noise = rng.standard_normal((len(own[part]), dim), dtype=np.float32)
        y[theirs[part]] = x[own[part]] + np.float32(0.8) * noise
    np.save(folder / "planted.npy", np.stack([own, theirs], axis=1))


def from_stores(folder: Path, stores: list[str], rows: int) -> None:
    """The same files from the first rows of two stores, with nothing planted."""
    from mexma_cli.store.embeddings import EmbeddingStore

    for side, path in zip("xy", stores, strict=True):
        store = EmbeddingStore.open(path)
        np.save(folder / f"{side}.npy", store.vectors(0, min(rows, store.rows)).astype(np.float32))
    np.save(folder / "planted.npy", np.empty((0, 2), np.int64))


def ours(x: np.ndarray, y: np.ndarray, k: int, folder: Path) -> tuple[float, np.ndarray]:
    from mexma_cli.knn.exact import knn

    began = time.perf_counter()
    return finished(began, knn(x, y, k), folder / "exact")


def with_index(
    x: np.ndarray, y: np.ndarray, k: int, index: str, recall: float, folder: Path
) -> tuple[float, np.ndarray]:
    from mexma_cli.knn.approximate import ann
    from mexma_cli.settings.stages import SearchSettings

    began = time.perf_counter()
    found = ann(x, y, k, SearchSettings(index=index, recall=recall)).neighbours
    return finished(began, found, folder / "approximate")


def finished(began: float, neighbours: Neighbours, folder: Path) -> tuple[float, np.ndarray]:
    """Seconds with matching, and pairs; the neighbours are kept, to count recall."""
    from mexma_cli.mining.match import match
    from mexma_cli.settings.stages import MineSettings

    found = match(neighbours, MineSettings())
    seconds = time.perf_counter() - began
    folder.mkdir(exist_ok=True)
    np.save(folder / "forward.npy", neighbours.forward_ids)
    np.save(folder / "backward.npy", neighbours.backward_ids)
    return seconds, np.stack([found.source, found.target], axis=1)


def recall_of(folder: Path) -> float:
    """The fraction of the exact neighbours that the last index found."""
    hits, wanted = 0, 0
    for name in ("forward.npy", "backward.npy"):
        true, ids = (np.load(folder / kind / name, mmap_mode="r") for kind in ("exact", "approximate"))
        for start in range(0, len(true), 4096):
            part = slice(start, start + 4096)
            hits += int((true[part, :, None] == ids[part, None, :]).sum())
        wanted += true.size
    return hits / wanted


def faiss_knn(x: np.ndarray, y: np.ndarray, k: int, share: float) -> tuple[float, np.ndarray]:
    import faiss

    from mexma_cli.knn.neighbours import Neighbours
    from mexma_cli.mining.match import match
    from mexma_cli.settings.stages import MineSettings

    began = time.perf_counter()
    faiss.normalize_L2(x)
    faiss.normalize_L2(y)
    fixed = time.perf_counter() - began
    asked = [side[: int(len(side) * share)] for side in (x, y)]
    began = time.perf_counter()
    forward = faiss.knn(asked[0], y, k, faiss.METRIC_INNER_PRODUCT)
    backward = faiss.knn(asked[1], x, k, faiss.METRIC_INNER_PRODUCT)
    seconds = (time.perf_counter() - began) / share + fixed
    if share < 1:
        return seconds, np.empty((0, 2), np.int64)
    began = time.perf_counter()
    found = match(Neighbours(*forward, *backward), MineSettings())
    return seconds + time.perf_counter() - began, np.stack([found.source, found.target], axis=1)


def torch_way(x: np.ndarray, y: np.ndarray, k: int, share: float) -> tuple[float, np.ndarray]:
    import torch

    from mexma_cli.knn.neighbours import Neighbours
    from mexma_cli.mining.match import match
    from mexma_cli.settings.stages import MineSettings

    began = time.perf_counter()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    sides = [torch.nn.functional.normalize(torch.from_numpy(side).to(device)) for side in (x, y)]
    found = []
    for queries, base in (sides, sides[::-1]):
        parts = [(some @ base.T).topk(k, dim=1) for some in queries.split(2048)]
        found += [torch.cat(each).cpu().numpy() for each in zip(*parts, strict=True)]
    pairs = match(Neighbours(*found), MineSettings())
    return time.perf_counter() - began, np.stack([pairs.source, pairs.target], axis=1)


def laser_way(x: np.ndarray, y: np.ndarray, k: int, share: float) -> tuple[float, np.ndarray]:
    import faiss

    began = time.perf_counter()
    faiss.normalize_L2(x)
    faiss.normalize_L2(y)
    fixed = time.perf_counter() - began
    began = time.perf_counter()
    answers = []
    for queries, base in ((x, y), (y, x)):
        index = faiss.IndexFlatIP(base.shape[1])
        index.add(base)
        answers.append(index.search(queries[: int(len(queries) * share)], k))
        del index
    (x_cosines, x_ids), (y_cosines, y_ids) = answers
    means = [np.resize(cosines.mean(axis=1), len(x)) for cosines in (x_cosines, y_cosines)]
    forward = one_by_one(x, y, x_ids, means[0], means[1])
    backward = one_by_one(y, x, y_ids, means[1], means[0])
    seconds = (time.perf_counter() - began) / share + fixed
    if share < 1:
        return seconds, np.empty((0, 2), np.int64)
    began = time.perf_counter()
    pairs = greedy(x_ids, y_ids, forward, backward)
    return seconds + time.perf_counter() - began, pairs


def one_by_one(
    x: np.ndarray, y: np.ndarray, ids: np.ndarray, own_mean: np.ndarray, other_mean: np.ndarray
) -> np.ndarray:
    """As LASER and sentence-transformers score candidates."""
    scores = np.zeros(ids.shape)
    for i in range(len(ids)):
        for place, j in enumerate(ids[i]):
            scores[i, place] = x[i].dot(y[j]) / ((own_mean[i] + other_mean[j]) / 2)
    return scores


def greedy(x_ids: np.ndarray, y_ids: np.ndarray, forward: np.ndarray, backward: np.ndarray) -> np.ndarray:
    """As they match: best first, each row once."""
    own, other = np.arange(len(x_ids)), np.arange(len(y_ids))
    best, best_of_other = x_ids[own, forward.argmax(axis=1)], y_ids[other, backward.argmax(axis=1)]
    pairs = np.stack([np.concatenate([own, best_of_other]), np.concatenate([best, other])], axis=1)
    scores = np.concatenate([forward.max(axis=1), backward.max(axis=1)])
    sources, targets, kept = set(), set(), []
    for place in np.argsort(-scores):
        source, target = pairs[place]
        if source not in sources and target not in targets:
            sources.add(source)
            targets.add(target)
            if scores[place] > 0:
                kept.append((source, target))
    return np.array(kept, dtype=np.int64)


def st_example(x: np.ndarray, y: np.ndarray, k: int, share: float) -> tuple[float, np.ndarray]:
    import faiss
    from sklearn.decomposition import PCA

    began = time.perf_counter()
    rng = np.random.default_rng(0)
    sample = np.concatenate([side[rng.choice(len(side), min(len(side), 10_000), False)] for side in (x, y)])
    components = PCA(n_components=min(128, x.shape[1]), random_state=0).fit(sample).components_.T
    x, y = ((side @ components).astype(np.float32) for side in (x, y))
    x, y = (side / np.linalg.norm(side, axis=1, keepdims=True) for side in (x, y))
    ids, cosines = [], []
    for queries, base in ((x, y), (y, x)):
        lists = min(32768, len(base) // 1000)
        index = faiss.IndexIVFFlat(faiss.IndexFlatIP(base.shape[1]), base.shape[1], lists)
        index.nprobe = 3
        index.train(base)
        index.add(base)
        answer = index.search(queries, k)
        cosines.append(answer[0])
        ids.append(answer[1])
    means = [side.mean(axis=1) for side in cosines]
    forward = one_by_one(x, y, ids[0], means[0], means[1])
    backward = one_by_one(y, x, ids[1], means[1], means[0])
    pairs = greedy(ids[0], ids[1], forward, backward)
    return time.perf_counter() - began, pairs


def laser_checkout(checkout: Path, folder: Path, dim: int, k: int) -> tuple[float, np.ndarray]:
    """mine_bitexts.py as it is; only the loading of encoders, which needs fairseq, is left out."""
    names = types.SimpleNamespace(SentenceEncoder=None, EncodeLoad=None, EncodeFile=None)
    names.EmbedLoad = lambda file, dim, **_: np.fromfile(file, np.float32).reshape(-1, dim)
    sys.modules["embed"] = names  # type: ignore[assignment]
    sys.modules["lib"] = types.ModuleType("lib")
    sys.modules["lib.text_processing"] = types.SimpleNamespace(Token=None, BPEfastApply=None)  # type: ignore[assignment]
    os.environ["LASER"] = str(checkout)
    for side in "xy":
        vectors = np.load(folder / f"{side}.npy", mmap_mode="r")
        vectors.tofile(folder / f"{side}.raw")
        (folder / f"{side}.txt").write_text("".join(f"{row}\n" for row in range(len(vectors))))
    files = ["x.txt", "y.txt", "--src-embeddings", "x.raw", "--trg-embeddings", "y.raw", "--output", "pairs"]
    files = [name if name.startswith("--") else str(folder / name) for name in files]
    options = ["--mode", "mine", "--src-lang", "x", "--trg-lang", "y", "-k", str(k), "--dim", str(dim)]
    sys.argv = ["mine_bitexts.py", *files, *options]
    began = time.perf_counter()
    runpy.run_path(str(checkout / "source" / "mine_bitexts.py"), run_name="__main__")
    seconds = time.perf_counter() - began
    lines = (folder / "pairs").read_text().splitlines()
    return seconds, np.array([line.split("\t")[1:] for line in lines], dtype=np.int64)


def contend(settings: argparse.Namespace) -> None:
    """One peer in this process; prints a JSON line."""
    import faiss
    import torch

    torch.set_num_threads(settings.threads)
    faiss.omp_set_num_threads(settings.threads)
    folder, name = Path(settings.folder), settings.contender
    if name == "laser" and settings.laser:
        seconds, pairs = laser_checkout(Path(settings.laser), folder, settings.dim, settings.k)
        before = 2 * (folder / "x.npy").stat().st_size
    else:
        peers: dict[str, Callable[..., tuple[float, np.ndarray]]]
        peers = {"faiss": faiss_knn, "laser": laser_way, "st": st_example, "torch": torch_way}
        x, y = np.load(folder / "x.npy"), np.load(folder / "y.npy")
        few = x[:5000], y[:5000]  # compiled code is loaded once a process; that is no part of the search
        if name == "ours":
            ours(*few, settings.k, folder)
        elif name == "torch":
            torch_way(*few, settings.k, 1)  # a GPU's libraries, too, are loaded once a process
        elif name not in peers:
            with_index(*few, settings.k, "IVF8,SQ8", 0.5, folder)
        before = peak_bytes()
        if name == "ours":
            seconds, pairs = ours(x, y, settings.k, folder)
        elif name in peers:
            seconds, pairs = peers[name](x, y, settings.k, settings.share)
        else:
            seconds, pairs = with_index(x, y, settings.k, name, settings.recall, folder)
    np.save(folder / "pairs.npy", pairs)
    print(json.dumps({"seconds": seconds, "above": peak_bytes() - before}))


def peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def peak_throughput(threads: int) -> float:
    """Multiplications and additions a second in torch's fastest public product here (int8's is slower)."""
    import torch

    torch.set_num_threads(threads)
    best = 0.0
    for dtype in (torch.float32, torch.bfloat16):
        ones = torch.ones(4096, 1024, dtype=dtype)
        for _ in range(8):
            began = time.perf_counter()
            torch.matmul(ones, ones.T)
            best = max(best, 2 * 4096 * 4096 * 1024 / (time.perf_counter() - began))
    return best


def run(settings: argparse.Namespace, rows: int) -> None:
    """Print one table."""
    from mexma_cli.knn.faiss_index import choose_index

    with tempfile.TemporaryDirectory(prefix="mexma-benchmark-") as folder:
        if settings.stores:
            from_stores(Path(folder), settings.stores, rows)
        else:
            make_up(Path(folder), rows, settings.dim)
        x, y = (np.load(f"{folder}/{side}.npy", mmap_mode="r").shape for side in "xy")
        planted = {tuple(pair) for pair in np.load(f"{folder}/planted.npy").tolist()}
        print(f"\n{x[0]:,} x {y[0]:,} x {x[1]}, k {settings.k}, {settings.threads} threads")
        print(
            f"{'':20}{'seconds':>9}{'ratio':>8}{'GB above':>10}{'recall':>8}{'same pairs':>12}{'planted':>9}"
        )
        indexes = dict.fromkeys(choose_index(y[0], x[1]) if name == "auto" else name for name in settings.ann)
        our_pairs: set[tuple[int, ...]] = set()
        figures: dict[str, float] = {}
        for name in ("ours", *indexes, *settings.peers):
            share = settings.share if name in ("laser", "faiss") and not settings.laser else 1
            arguments = [sys.executable, __file__, "--contender", name, "--folder", folder]
            for option, value in (
                ("--dim", x[1]),
                ("-k", settings.k),
                ("--recall", settings.recall),
                ("--threads", settings.threads),
            ):
                arguments += [option, str(value)]
            arguments += ["--share", str(share)] + (["--laser", settings.laser] if settings.laser else [])
            threads = {"OMP_NUM_THREADS": str(settings.threads)}
            done = subprocess.run(arguments, check=True, stdout=subprocess.PIPE, env=os.environ | threads)
            result = json.loads(done.stdout.splitlines()[-1])
            pairs = {tuple(pair) for pair in np.load(f"{folder}/pairs.npy").tolist()}
            if name == "ours":
                our_pairs, figures = pairs, result
            same = f"{100 * len(pairs & our_pairs) / len(our_pairs):11.3f}%" if pairs else "            "
            found = f"{100 * len(pairs & planted) / len(planted):8.2f}%" if pairs and planted else ""
            if not pairs:
                found = "  (from a share of the queries)"
            recall = f"{100 * recall_of(Path(folder)):7.1f}%" if name in indexes else f"{'':8}"
            print(
                f"{name:20}{result['seconds']:9.1f}{result['seconds'] / figures['seconds']:8.2f}"
                f"{result['above'] / 1e9:10.2f}{recall}{same}{found}",
                flush=True,
            )
    work = 2 * x[0] * y[0] * x[1] / figures["seconds"]
    peak = peak_throughput(settings.threads)
    print(f"ours: {work / 1e9:,.0f} GFLOP/s, {100 * work / peak:.0f}% of torch's best matrix product here")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, nargs="+", default=[50_000])
    parser.add_argument("--dim", type=int, default=1024)
    parser.add_argument("-k", type=int, default=16)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--peers", nargs="*", choices=[*PEERS, "none"], default=list(PEERS))
    parser.add_argument("--ann", nargs="*", default=["auto"], metavar="INDEX")
    parser.add_argument("--recall", type=float, default=0.95, help="that indexes are to find")
    parser.add_argument("--stores", nargs=2, metavar="EMB", help="real vectors, --rows of them at most")
    parser.add_argument("--laser", metavar="DIR", help="a checkout of LASER")
    parser.add_argument("--contender", help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    settings = parser.parse_args()
    if settings.contender:
        contend(settings)
        return
    settings.ann = [index for index in settings.ann if index != "none"]
    settings.peers = [peer for peer in settings.peers if peer != "none"]
    for rows in settings.rows:
        run(settings, rows)


if __name__ == "__main__":
    main()
