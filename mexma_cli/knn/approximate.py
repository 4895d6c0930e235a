"""Approximate nearest neighbours in both directions, from FAISS indexes, with exact cosines.

An index over y is asked for more neighbours of every row of x than are wanted, one over x for those of every
row of y. The true cosine of every pair that comes up is computed, and offered to both of its rows: what one
direction overlooks the other may find. So the cosines are exact, and only which rows are found is not; how
many of the true ones are is measured on a sample that is also answered exactly.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import faiss
import numpy as np
import torch

from mexma_cli.knn import faiss_index, kernels, sweep
from mexma_cli.knn.answers import Direction, Search
from mexma_cli.knn.blocks import Side, VectorSource
from mexma_cli.knn.effort import tune
from mexma_cli.knn.exact import Neighbours, TooLittleMemory, knn, unpack
from mexma_cli.knn.faiss_index import SideIndex, choose
from mexma_cli.text.amounts import size

_WORKING = 4 << 30  # bytes where no limit is given
_OVERHEAD = 64 << 20  # what samples and faiss itself take
_LEAST = 32 << 20


class Journal(sweep.Journal, faiss_index.Keeper, Protocol):
    """Keeps indexes, how they are searched and what was found, so that a search that was killed goes on."""

    @property
    def folder(self) -> Path:
        """Where indexes are kept."""
        ...

    @property
    def facts(self) -> dict[str, Any]:
        """What was noted by this run or one before it."""
        ...

    def note(self, began: float | None = None, **facts: Any) -> None:
        """Keep facts, what JSON can hold."""
        ...


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
    journal: Journal | None = None,
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
        journal: Keeps the indexes and what has been found, and gives them back to the next run of the same
            search; that goes on with the memory that it was begun with.
        seed: Of the samples and of the training.
        on_progress: Called with (rows done, rows in all), where a row counts once when it is put into an
            index and once when it is answered.

    Returns:
        Neighbours as from `knn`: sorted, as many as there, with exact float32 cosines. A row for which the
        index had fewer than k answers is answered exactly.

    Raises:
        MexmaError: faiss does not know the index, or there are too few rows to train it.
        TooLittleMemory: It cannot be done in that much memory.
        ValueError: As for `knn`; `recall` not in (0, 1].
    """
    if k < 1 or not 0 < recall <= 1:
        raise ValueError(f"k must be at least 1 and recall between 0 and 1, not {k} and {recall}")
    left, right = Side(x, keep_x), Side(y, keep_y)
    if left.dim != right.dim:
        raise ValueError(f"vectors of {left.dim} and of {right.dim} dimensions")
    if not faiss_index.needed(index, len(left) * len(right)):
        found = knn(
            x, y, k, keep_x=keep_x, keep_y=keep_y, memory=memory, journal=journal, on_progress=on_progress
        )
        exact = Direction("exact", "", min(k, len(right)), 0, 1.0, 1.0, len(left))
        return Approximate(found, exact, exact)
    with _threads(), ExitStack() as stack:
        folder = journal.folder if journal else Path(stack.enter_context(_temporary(scratch)))
        return _approximate(left, right, k, index, recall, memory, folder, journal, seed, on_progress)


def _approximate(
    left: Side,
    right: Side,
    k: int,
    index: str,
    recall: float,
    memory: int | None,
    folder: Path,
    journal: Journal | None,
    seed: int,
    on_progress: Callable[[int, int], None] | None,
) -> Approximate:
    """With an index over each side, in `folder` where they are in files."""
    forward = np.full((len(left), min(k, len(right))), kernels.EMPTY, dtype=np.int64)
    backward = np.full((len(right), min(k, len(left))), kernels.EMPTY, dtype=np.int64)
    if journal is not None and "memory" in journal.facts:
        memory = journal.facts["memory"]
    working = _working(memory, len(left), len(right), k)
    share = None if memory is None else working // 4
    progress = _Progress(2 * (len(left) + len(right)), on_progress)
    indexes = []
    for name, side in (("y", right), ("x", left)):
        factory = choose(len(side), side.dim) if index == "auto" else index
        indexes.append(SideIndex(side, factory, share, folder / f"index-{name}", seed, journal))
        if journal is not None:
            journal.note(memory=memory)
    for built in indexes:
        built.fill(progress)
    ahead = Search(left, right, indexes[0], forward, backward, working)
    back = Search(right, left, indexes[1], backward, forward, working)
    _set(ahead, back, recall, seed, journal)
    _answer(ahead, back, seed, journal, progress)
    return Approximate(
        Neighbours(*unpack(forward, left, right), *unpack(backward, right, left)),
        ahead.report(),
        back.report(),
    )


def _set(ahead: Search, back: Search, recall: float, seed: int, journal: Journal | None) -> None:
    """Find out how hard to search, or take what an earlier run found out."""
    known = journal.facts.get("searched") if journal else None
    if known:
        ahead.hits, ahead.index.effort, back.index.effort = known
    else:
        began = time.monotonic()
        ahead.hits = tune(ahead, back, recall, seed)
        if journal is not None:
            journal.note(began, searched=[ahead.hits, ahead.index.effort, back.index.effort])
    back.hits = ahead.hits


def _answer(
    ahead: Search, back: Search, seed: int, journal: Journal | None, progress: Callable[[int], None]
) -> None:
    """Ask both indexes about all rows, and enter from time to time what they answered."""
    rows = len(ahead.own)
    lists = ahead.best, back.best
    kept = journal.load(*lists) if journal else None
    done = kept[2] if kept else 0  # rows of both sides, in this order
    progress(done)

    def answered(count: int) -> None:
        nonlocal done
        done += count
        progress(count)
        if journal is not None and journal.due():
            journal.save(sweep.Place(rows, 0, done), *lists)

    ahead.measure(seed)
    ahead.run(min(done, rows), answered)
    back.measure(seed)
    back.run(done - rows, answered)
    for search in (ahead, back):
        search.complete()


def _temporary(scratch: Path | None) -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="mexma-", dir=scratch)


def least_bytes(n: int, m: int, k: int) -> int:
    """Bytes without which `ann` of n and m rows with an index is refused."""
    return _result_bytes(n, m, k) + _OVERHEAD + _LEAST


def _result_bytes(n: int, m: int, k: int) -> int:
    return 20 * (n * min(k, m) + m * min(k, n))


def _working(memory: int | None, n: int, m: int, k: int) -> int:
    if memory is None:
        return _WORKING
    results, needed = _result_bytes(n, m, k), least_bytes(n, m, k)
    if memory < needed:
        raise TooLittleMemory(
            f"the neighbours alone need {size(results)} and the search {size(_OVERHEAD + _LEAST)}, "
            f"{size(max(memory, 0))} are there",
            needed,
        )
    return memory - results - _OVERHEAD


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
