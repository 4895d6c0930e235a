"""The rows of one side are looked up in an index over the other, and its answers get exact cosines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from mexma_cli.knn import kernels
from mexma_cli.knn.blocks import Side
from mexma_cli.knn.faiss_index import BLOCK, SideIndex, gather
from mexma_cli.numerics.compiling import compiled

TUNED_ON, MEASURED_ON = 256, 512  # rows a direction
_HIT_BYTES = 64  # an id, an approximate and an exact cosine, their order, and copies while sorting


@dataclass(frozen=True)
class DirectionReport:
    """How the neighbours of the rows of one side were found."""

    index: str
    """The factory string of the index over the other side."""
    effort: str
    """The index's search parameter, such as "nprobe=64", or "" if it has none."""
    hits: int
    """Answers of the index whose exact cosines were computed, for each row."""
    parts: int
    """Files that the index was in; 0: it was in memory."""
    recall: float
    """The fraction of the true k neighbours that were found, over the sample."""
    recall_first: float
    """The same for the nearest neighbour alone."""
    sample: int
    """Rows drawn at random."""


class IndexSearch:
    """The rows of one side and an index over the other."""

    def __init__(
        self, own: Side, other: Side, index: SideIndex, best: np.ndarray, theirs: np.ndarray, working: int
    ) -> None:
        self.own, self.other, self.index = own, other, index
        self.best, self._theirs = best, theirs  # keys, the k best in both directions
        self._working = working
        self.hits = 0  # answers of the index whose cosines are computed, a row
        self._sample = self._truth = np.empty(0, dtype=np.int64)

    @property
    def k(self) -> int:
        return self.best.shape[1]

    def measure(self, seed: int) -> None:
        """Draw a sample and answer it exactly, to compare it in `report`."""
        self._sample = draw(len(self.own), seed)[1]
        self._truth = exact(gather(self.own, self._sample), self.other, self.k)

    def run(self, first: int, progress: Callable[[int], None]) -> None:
        """Look up the rows from `first` on."""
        self.hits = min(self.hits, len(self.other))
        at_once = max(64, self._working // 4 // (8 * self.own.dim + _HIT_BYTES * self.hits))
        block = max(256, self._working // 8 // (8 * self.other.dim))
        kept = self.other.units(0, len(self.other)) if block >= len(self.other) else None
        for start in range(first, len(self.own), at_once):
            queries = self.own.units(start, start + at_once)
            self._score(queries, self.index.search(queries, self.hits), start, kept, block)
            progress(len(queries))

    def _score(
        self, queries: np.ndarray, ids: np.ndarray, start: int, kept: np.ndarray | None, block: int
    ) -> None:
        """Compute the cosines of an index's answers, ids [n, hits], and keep the best of both sides."""
        flat = ids.reshape(-1)
        order = np.flatnonzero(flat >= 0) if kept is not None else np.argsort(flat)
        sorted_ids = flat[order]
        for first in range(0, len(self.other), len(self.other) if kept is not None else block):
            if kept is None:
                low, high = np.searchsorted(sorted_ids, (first, first + block)).tolist()
                vectors = self.other.units(first, first + block) if high > low else None
            else:
                low, high, vectors = 0, len(order), kept
            if vectors is None:
                continue
            rows, columns = order[low:high] // ids.shape[1], sorted_ids[low:high]
            scores = kernels.dots(queries, vectors, rows, columns - first)
            offer(self.best[start : start + len(queries)], rows, columns, scores)
            offer(self._theirs, columns, rows + start, scores)

    def complete(self) -> None:
        """Search exactly for the rows that still have fewer than k neighbours."""
        short = np.flatnonzero((self.best == kernels.EMPTY).any(axis=1))
        for start in range(0, len(short), BLOCK):
            rows = short[start : start + BLOCK]
            self.best[rows] = exact(gather(self.own, rows), self.other, self.best.shape[1])

    def report(self) -> DirectionReport:
        """How the search was done, and its recall on the sample."""
        found = kernels.scores_of(self.best[self._sample])
        true = kernels.scores_of(self._truth)
        return DirectionReport(
            index=self.index.factory,
            effort=self.index.effort,
            hits=self.hits,
            parts=self.index.parts,
            recall=float((found >= true[:, :1]).mean()),
            recall_first=float((found[:, -1] >= true[:, -1]).mean()),
            sample=len(self._sample),
        )


def draw(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Sorted places of rows to tune on, and of others to measure on, so that recall is not overestimated."""
    drawn = np.random.default_rng(seed + 1).permutation(rows)[: TUNED_ON + MEASURED_ON]
    if len(drawn) < 2 * TUNED_ON:
        return np.sort(drawn), np.sort(drawn)
    return np.sort(drawn[:TUNED_ON]), np.sort(drawn[TUNED_ON:])


def exact(queries: np.ndarray, other: Side, k: int) -> np.ndarray:
    """Keys of the k best rows of a side for unit vectors [n, d]: int64 [n, k], ascending."""
    best = np.full((len(queries), k), kernels.EMPTY, dtype=np.int64)
    left = torch.from_numpy(queries)
    for start in range(0, len(other), BLOCK):
        block = other.units(start, start + BLOCK)
        few = min(k + 4, len(block))  # a few more, as the product may round otherwise than `dots`
        for top in range(0, len(queries), 512):
            near = (left[top : top + 512] @ torch.from_numpy(block).T).topk(few, dim=1).indices.numpy()
            rows, columns = np.repeat(np.arange(top, top + len(near)), few), near.reshape(-1)
            offer(best, rows, columns + start, kernels.dots(queries, block, rows, columns))
    return best


@compiled
def offer(best: np.ndarray, rows: np.ndarray, ids: np.ndarray, scores: np.ndarray) -> None:
    """Put pairs into the lists of the k best, where they are good enough and not there yet.

    Args:
        best: int64 [n, k], keys, each row ascending.
        rows, ids: int64 [p], the list, and the row of the other side that may enter it.
        scores: float32 [p].
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
