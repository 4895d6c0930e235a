"""The rows of one side are looked up in an index over the other, and its answers get exact cosines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from mexma_cli.knn import kernels
from mexma_cli.knn.faiss_index import BLOCK, Parts
from mexma_cli.knn.keys import EMPTY, rows_of
from mexma_cli.knn.sides import Side, dots

TUNED_ON, MEASURED_ON = 256, 512  # rows a direction
_PROBE_BYTES = 12  # a list and how near it is
_HIT_BYTES = 64  # an id, an approximate and an exact cosine, their order, and copies while sorting


@dataclass(frozen=True)
class Direction:
    """The rows of one side, which are looked up in an index over the other."""

    own: Side
    other: Side
    index: Parts

    def answers(
        self, start: int, hits: int, k: int, working: int
    ) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """Look up the own rows from `start` on, some at a time.

        Args:
            hits: Answers of the index that are wanted for each row.
            working: Bytes that all this may take.

        Yields:
            The place of the first of some rows, their unit vectors [n, d], and the places of rows that are
            near them, int64 [n, hits], -1 behind the last: of the k nearest, where the index has fewer.
        """
        hits = min(hits, len(self.other))
        at_once = max(
            64, working // 4 // (8 * self.own.dim + _HIT_BYTES * hits + _PROBE_BYTES * self.index.probes)
        )
        for first in range(start, len(self.own), at_once):
            queries = self.own.units(first, first + at_once)
            ids = self.index.search(queries, hits)
            short = np.flatnonzero(ids[:, min(k, hits) - 1] < 0)
            for some in np.split(short, range(BLOCK, len(short), BLOCK)):
                ids[some, :k] = rows_of(exact(queries[some], self.other, min(k, hits)))
            yield first, queries, ids


class Best:
    """The k best rows of the other side for all rows of both sides, of pairs that come in any order."""

    def __init__(self, own: np.ndarray, theirs: np.ndarray, other: Side, block: int) -> None:
        """
        Args:
            own, theirs: Keys of the best so far, int64 [rows, k], each ascending; updated in place.
            block: Rows of the other side that may be in memory.
        """
        self._own, self._theirs, self._other, self._block = own, theirs, other, block
        self._all = other.units(0, len(other)) if block >= len(other) else None

    def take(self, queries: np.ndarray, first: int, rows: np.ndarray, columns: np.ndarray) -> None:
        """Compute the cosines of pairs, and keep the best of both sides.

        Args:
            queries: Unit vectors [n, d] of own rows from `first` on.
            rows, columns: int64 [p], which of these, and places on the other side.
        """
        if self._all is not None:
            self._offer(queries, first, rows, columns, self._all, 0)
            return
        order = np.argsort(columns)
        rows, columns = rows[order], columns[order]
        for start in range(0, len(self._other), self._block):
            low, high = np.searchsorted(columns, (start, start + self._block)).tolist()
            if high > low:
                vectors = self._other.units(start, start + self._block)
                self._offer(queries, first, rows[low:high], columns[low:high], vectors, start)

    def _offer(
        self,
        queries: np.ndarray,
        first: int,
        rows: np.ndarray,
        columns: np.ndarray,
        vectors: np.ndarray,
        start: int,
    ) -> None:
        scores = dots(queries, vectors, rows, columns - start)
        kernels.offer(self._own, rows + first, columns, scores)
        kernels.offer(self._theirs, columns, rows + first, scores)


def draw(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Sorted places of rows to tune on, and of others to measure on, so that recall is not overestimated."""
    drawn = np.random.default_rng(seed + 1).permutation(rows)[: TUNED_ON + MEASURED_ON]
    if len(drawn) < 2 * TUNED_ON:
        return np.sort(drawn), np.sort(drawn)
    return np.sort(drawn[:TUNED_ON]), np.sort(drawn[TUNED_ON:])


def exact(queries: np.ndarray, other: Side, k: int) -> np.ndarray:
    """Keys of the k best rows of a side for unit vectors [n, d]: int64 [n, k], ascending."""
    best = np.full((len(queries), k), EMPTY, dtype=np.int64)
    left = torch.from_numpy(queries)
    for start in range(0, len(other), BLOCK):
        block = other.units(start, start + BLOCK)
        few = min(k + 4, len(block))  # a few more, as the product may round otherwise than `dots`
        for top in range(0, len(queries), 512):
            near = (left[top : top + 512] @ torch.from_numpy(block).T).topk(few, dim=1).indices.numpy()
            rows, columns = np.repeat(np.arange(top, top + len(near)), few), near.reshape(-1)
            kernels.offer(best, rows, columns + start, dots(queries, block, rows, columns))
    return best
