"""Approximate nearest neighbours in both directions, from FAISS indexes, with exact cosines.

An index over y is asked for more neighbours of every row of x than are wanted, one over x for those of every
row of y. The true cosine of every pair that comes up is computed, and offered to both of its rows: what one
direction overlooks the other may find. So the cosines are exact, and only which rows are found is not; how
many of the true ones are is measured on a sample that is also answered exactly.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import faiss
import numpy as np
import torch
from numba import njit

from mexma_cli.errors import MexmaError
from mexma_cli.mining import faiss_index, kernels
from mexma_cli.mining.blocks import Side, VectorSource
from mexma_cli.mining.faiss_index import BLOCK, SideIndex, choose, gather, units
from mexma_cli.mining.neighbours import Neighbours, knn, unpack

_TUNED_ON, _MEASURED_ON = 256, 512  # rows a direction
_SPARE_HITS, _FEWEST_HITS = 4, 64
_WORKING = 4 << 30  # bytes where no limit is given
_OVERHEAD = 64 << 20  # what samples and faiss itself take
_LEAST = 32 << 20
_HIT_BYTES = 64  # an id, an approximate and an exact cosine, their order, and copies while sorting


@dataclass(frozen=True)
class Direction:
    """How the rows of one side were answered.

    `index` is the factory string over the other side; `effort` its search parameter, such as "nprobe=64", or
    "" if it has none; `hits` how many of its answers were scored again, a row; `parts` the files that it was
    in, 0 if it was in memory. `recall` is the fraction of the true k neighbours that were found, and
    `recall_first` that of the nearest ones, over `sample` rows drawn at random.
    """

    index: str
    effort: str
    hits: int
    parts: int
    recall: float
    recall_first: float
    sample: int


@dataclass(frozen=True)
class Approximate:
    """What was found, and how much of what there is that was. `forward` asked for the rows of x."""

    neighbours: Neighbours
    forward: Direction
    backward: Direction

    @property
    def recall(self) -> float:
        """The fraction of the true neighbours found, over the samples of both directions."""
        return (self.forward.recall + self.backward.recall) / 2

    @property
    def recall_first(self) -> float:
        """The same for the nearest neighbour alone."""
        return (self.forward.recall_first + self.backward.recall_first) / 2

    @property
    def index(self) -> str:
        """The factory string, or both."""
        return " and ".join(dict.fromkeys((self.forward.index, self.backward.index)))


def ann(
    x: np.ndarray | VectorSource,
    y: np.ndarray | VectorSource,
    k: int,
    *,
    index: str = "auto",
    recall: float = 0.95,
    keep_x: np.ndarray | None = None,
    keep_y: np.ndarray | None = None,
    memory: int | None = None,
    scratch: Path | None = None,
    seed: int = 42,
    on_progress: Callable[[int, int], None] | None = None,
) -> Approximate:
    """Find about the k nearest rows by cosine, from x to y and from y to x.

    The same seed, memory and number of threads (torch's, which faiss is given too) give the same result for
    indexes with lists; graphs (HNSW) that more than one thread builds differ a little from run to run.

    Args:
        x, y, k, keep_x, keep_y: As for `neighbours.knn`.
        index: What `faiss.index_factory` takes, for inner products of unit vectors, or "auto": by the number
            of rows, from `faiss_index.SIZES`, or none for `faiss_index.EXACT_PAIRS` and fewer. A sample of
            the rows trains it.
        recall: The fraction of neighbours wanted. As many lists (nprobe; of an HNSW graph efSearch) are
            searched as give that on a sample, doubling from few, but never more than half of them. 1.0 is as
            much as the index can.
        memory: Bytes that may be taken, x and y not counted. An index that needs more than half of what the
            results leave of it is cut into parts that lie in files and are loaded in turn. Default: no limit.
        scratch: Folder for those files, which are gone afterwards. Default: the system's for such things.
        seed: Of the samples and of the training.
        on_progress: Called with (rows done, rows in all), where a row counts once when it is put into an
            index and once when it is answered.

    Returns:
        Neighbours as from `knn`: sorted, as many as there, with exact float32 cosines. A row for which the
        index had fewer than k answers is answered exactly.

    Raises:
        MexmaError: faiss does not know the index, or there are too few rows to train it, or it cannot be done
            in that much memory.
        ValueError: As for `knn`; `recall` not in (0, 1].
    """
    if k < 1 or not 0 < recall <= 1:
        raise ValueError(f"k must be at least 1 and recall between 0 and 1, not {k} and {recall}")
    left, right = Side(x, keep_x), Side(y, keep_y)
    if left.dim != right.dim:
        raise ValueError(f"vectors of {left.dim} and of {right.dim} dimensions")
    factories = [choose(len(side), side.dim) if index == "auto" else index for side in (right, left)]
    pairs = len(left) * len(right)
    if not pairs or (index == "auto" and pairs <= faiss_index.EXACT_PAIRS):
        found = knn(x, y, k, keep_x=keep_x, keep_y=keep_y, memory=memory, on_progress=on_progress)
        exact = Direction("exact", "", min(k, len(right)), 0, 1.0, 1.0, len(left))
        return Approximate(found, exact, exact)
    forward = np.full((len(left), min(k, len(right))), kernels.EMPTY, dtype=np.int64)
    backward = np.full((len(right), min(k, len(left))), kernels.EMPTY, dtype=np.int64)
    working = _working(memory, 20 * (forward.size + backward.size))
    progress = _Progress(2 * (len(left) + len(right)), on_progress)
    with _threads(), tempfile.TemporaryDirectory(prefix="mexma-", dir=scratch) as folder:
        share = None if memory is None else working // 4
        over_y, over_x = (
            SideIndex(side, factory, share, Path(folder) / name, seed)
            for side, factory, name in zip((right, left), factories, ("y", "x"), strict=True)
        )
        for built in (over_y, over_x):
            built.fill(progress)
        ahead = _Search(left, right, over_y, forward, backward, working)
        back = _Search(right, left, over_x, backward, forward, working)
        hits = _tune(ahead, back, recall, seed)
        for search in (ahead, back):
            search.run(hits, seed, progress)
        for search in (ahead, back):
            search.complete()
    return Approximate(
        Neighbours(*unpack(forward, left, right), *unpack(backward, right, left)),
        ahead.report(),
        back.report(),
    )


def _working(memory: int | None, results: int) -> int:
    if memory is None:
        return _WORKING
    working = memory - results - _OVERHEAD
    if working < _LEAST:
        raise MexmaError(
            f"the neighbours alone need {results / 1e9:.2f} GB and the search "
            f"{(_OVERHEAD + _LEAST) / 1e9:.2f} GB, {max(memory, 0) / 1e9:.2f} GB are there",
            "more --memory, a smaller -k, or the text in parts",
        )
    return working


@contextmanager
def _threads() -> Iterator[None]:
    """Let faiss have as many threads as torch has, for the time of the block."""
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(torch.get_num_threads())
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)


class _Progress:
    def __init__(self, total: int, callback: Callable[[int, int], None] | None) -> None:
        self._done, self._total, self._callback = 0, total, callback

    def __call__(self, rows: int) -> None:
        self._done += rows
        if self._callback is not None:
            self._callback(self._done, self._total)


class _Search:
    """The rows of one side and an index over the other."""

    def __init__(
        self, own: Side, other: Side, index: SideIndex, best: np.ndarray, theirs: np.ndarray, working: int
    ) -> None:
        self.own, self.other, self.index = own, other, index
        self._best, self._theirs = best, theirs  # keys, the k best in both directions
        self._working = working
        self._hits = 0
        self._sample = self._truth = np.empty(0, dtype=np.int64)

    @property
    def k(self) -> int:
        return self._best.shape[1]

    def run(self, hits: int, seed: int, progress: Callable[[int], None]) -> None:
        """Ask the index about every row, for so many hits; and draw a sample and answer it exactly."""
        self._hits = min(hits, len(self.other))
        self._sample = _draw(len(self.own), seed)[1]
        self._truth = exact(gather(self.own, self._sample), self.other, self.k)
        at_once = max(64, self._working // 4 // (8 * self.own.dim + _HIT_BYTES * self._hits))
        block = max(256, self._working // 8 // (8 * self.other.dim))
        kept = units(self.other, 0, len(self.other)) if block >= len(self.other) else None
        for start in range(0, len(self.own), at_once):
            queries = units(self.own, start, start + at_once)
            self._score(queries, self.index.search(queries, self._hits), start, kept, block)
            progress(len(queries))

    def _score(
        self, queries: np.ndarray, ids: np.ndarray, start: int, kept: np.ndarray | None, block: int
    ) -> None:
        """Compute the cosines of what an index answered, ids [n, hits], and keep the best of both sides."""
        flat = ids.reshape(-1)
        order = np.flatnonzero(flat >= 0) if kept is not None else np.argsort(flat)
        sorted_ids = flat[order]
        for first in range(0, len(self.other), len(self.other) if kept is not None else block):
            if kept is None:
                low, high = np.searchsorted(sorted_ids, (first, first + block)).tolist()
                vectors = units(self.other, first, first + block) if high > low else None
            else:
                low, high, vectors = 0, len(order), kept
            if vectors is None:
                continue
            rows, columns = order[low:high] // ids.shape[1], sorted_ids[low:high]
            scores = kernels.dots(queries, vectors, rows, columns - first)
            _offer(self._best[start : start + len(queries)], rows, columns, scores)
            _offer(self._theirs, columns, rows + start, scores)

    def complete(self) -> None:
        """Answer exactly the rows that still have fewer than k neighbours."""
        short = np.flatnonzero((self._best == kernels.EMPTY).any(axis=1))
        for start in range(0, len(short), BLOCK):
            rows = short[start : start + BLOCK]
            self._best[rows] = exact(gather(self.own, rows), self.other, self._best.shape[1])

    def report(self) -> Direction:
        """How it was done and, on the sample, how well."""
        found = kernels.scores_of(self._best[self._sample])
        true = kernels.scores_of(self._truth)
        return Direction(
            index=self.index.factory,
            effort=self.index.effort,
            hits=self._hits,
            parts=self.index.parts,
            recall=float((found >= true[:, :1]).mean()),
            recall_first=float((found[:, -1] >= true[:, -1]).mean()),
            sample=len(self._sample),
        )


def _draw(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Sorted places to tune on, and others to measure on: the same ones would flatter."""
    drawn = np.random.default_rng(seed + 1).permutation(rows)[: _TUNED_ON + _MEASURED_ON]
    if len(drawn) < 2 * _TUNED_ON:
        return np.sort(drawn), np.sort(drawn)
    return np.sort(drawn[:_TUNED_ON]), np.sort(drawn[_TUNED_ON:])


def _tune(ahead: _Search, back: _Search, recall: float, seed: int) -> int:
    """Set how hard both indexes are searched, and say how many of their answers are to be scored."""
    probes = [_Probe(ahead, back, seed), _Probe(back, ahead, seed)]
    fewest = max(_SPARE_HITS * max(ahead.k, back.k), _FEWEST_HITS)
    # A graph is searched the further the more answers it is asked for: there the effort is all.
    graph = "efSearch" in (ahead.index.parameter, back.index.parameter)
    counts = [fewest] if graph else [fewest, 2 * fewest, 4 * fewest]
    while True:
        ranks = np.concatenate([probe.ranks(counts[-1], fewest).reshape(-1) for probe in probes])
        found = {hits: float((ranks < hits).mean()) for hits in counts}
        for hits in counts:
            if found[hits] >= recall:
                return hits
        harder = [search.index.try_harder() for search in (ahead, back)]
        if not any(harder):  # as few as find about what the most find
            return next(hits for hits in counts if found[hits] >= 0.995 * found[counts[-1]])


class _Probe:
    """Some rows of one side and who their true neighbours are."""

    def __init__(self, search: _Search, reverse: _Search, seed: int) -> None:
        self._index, self._reverse = search.index, reverse.index
        self._rows = _draw(len(search.own), seed)[0]
        self._queries = gather(search.own, self._rows)
        self._true = _ids(exact(self._queries, search.other, search.k))
        self._targets, self._target = np.unique(self._true, return_inverse=True)
        self._vectors = gather(search.other, self._targets)

    def ranks(self, most: int, enough: int) -> np.ndarray:
        """At which place, from 0, each true pair comes up, int64 [n, k]; `most` if it does not.

        A pair counts from both of its ends. Those that come up within `enough` are not asked for from the
        other end.
        """
        ids = self._index.search(self._queries, most)
        ranks = _places(np.repeat(ids, self._true.shape[1], axis=0), self._true.reshape(-1))
        late = np.flatnonzero(ranks >= enough)
        if len(late):
            wanted, which = np.unique(self._target.reshape(-1)[late], return_inverse=True)
            ids = self._reverse.search(self._vectors[wanted], most)
            rows = self._rows[late // self._true.shape[1]]
            ranks[late] = np.minimum(ranks[late], _places(ids[which], rows))
        return ranks


def _places(lists: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Where each number stands in its list [n, c]: int64 [n], c if nowhere."""
    same = lists == wanted[:, None]
    return np.where(same.any(axis=1), same.argmax(axis=1), lists.shape[1])


def exact(queries: np.ndarray, other: Side, k: int) -> np.ndarray:
    """Keys of the k best rows of a side for unit vectors [n, d]: int64 [n, k], ascending."""
    best = np.full((len(queries), k), kernels.EMPTY, dtype=np.int64)
    left = torch.from_numpy(queries)
    for start in range(0, len(other), BLOCK):
        block = units(other, start, start + BLOCK)
        few = min(k + 4, len(block))  # a few more, as the product may round otherwise than `dots`
        for top in range(0, len(queries), 512):
            near = (left[top : top + 512] @ torch.from_numpy(block).T).topk(few, dim=1).indices.numpy()
            rows, columns = np.repeat(np.arange(top, top + len(near)), few), near.reshape(-1)
            _offer(best, rows, columns + start, kernels.dots(queries, block, rows, columns))
    return best


@njit(nogil=True, cache=True, error_model="numpy")
def _offer(best: np.ndarray, rows: np.ndarray, ids: np.ndarray, scores: np.ndarray) -> None:
    """Put pairs into the lists of k best that they are good enough for, each pair once.

    Args:
        best: int64 [n, k], keys, each row ascending.
        rows, ids: int64 [p], the list and who is to enter it; scores: float32 [p].
    """
    k = best.shape[1]
    for pair in range(len(rows)):
        new, mine = kernels.key(scores[pair], ids[pair]), best[rows[pair]]
        if new <= mine[0]:
            continue
        place = np.searchsorted(mine, new)  # of the first that is not less
        if place < k and mine[place] == new:
            continue
        mine[: place - 1] = mine[1:place]
        mine[place - 1] = new


def _ids(keys: np.ndarray) -> np.ndarray:
    return np.int64(0xFFFFFFFF) - (keys & np.int64(0xFFFFFFFF))
