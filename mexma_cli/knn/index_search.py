"""The search by indexes: rows of one side are looked up in an index over the other, and what is found gets
exact cosines. One process does it for all rows; several do it span by span.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from mexma_cli.knn import kernels
from mexma_cli.knn.cosines import EMPTY, rows_of
from mexma_cli.knn.faiss_index import BLOCK, SEED, PartitionedIndex
from mexma_cli.knn.sides import SearchSide, dots
from mexma_cli.knn.spans import Span, of_whole
from mexma_cli.numerics.threads import in_slices

TUNED_ON, MEASURED_ON = 256, 512  # rows a direction
CHUNK = 1 << 28
"""Bytes in which rows are looked up and scored at a time, where the memory has no limit."""
BLOCK_BYTES = 1 << 22
"""Bytes of the other side's vectors while cosines with them are computed: so few that they are in the
processor's cache."""
_AT_ONCE = 1024  # rows are looked up in multiples of it
_PROBE_BYTES = 12  # a list and how near it is
_HIT_BYTES = 12  # an id and a cosine


class NearLists(NamedTuple):
    """For some rows, lists of rows of the other side that may be near.

    Attributes:
        columns: int64 [p], the lists one behind another, each ascending.
        starts, ends: int64 [n], where each row's list begins and ends.
    """

    columns: np.ndarray
    starts: np.ndarray
    ends: np.ndarray


@dataclass(frozen=True)
class Direction:
    """The rows of one side, which are looked up in an index over the other."""

    own: SearchSide
    other: SearchSide
    index: PartitionedIndex

    def chunks(self, hits: int, start: int = 0, memory: int = CHUNK) -> list[tuple[int, int]]:
        """Cut the own rows from `start` on into those that are looked up and scored at a time.

        Args:
            memory: Bytes that this may take.
        """
        vectors = 2 if self.index.transforms else 1
        row = row_bytes(vectors * self.own.dim, hits, self.index.probes)
        rows = max(64, memory // row // _AT_ONCE * _AT_ONCE)
        return [(first, min(first + rows, len(self.own))) for first in range(start, len(self.own), rows)]

    def look_up(self, first: int, stop: int, hits: int, k: int) -> tuple[np.ndarray, NearLists]:
        """Look up own rows first to stop.

        Args:
            hits: Answers of the index that are wanted for each row.

        Returns:
            Their unit vectors [n, d], and the places of rows that are near them: exactly the k nearest,
            where the index has fewer.
        """
        hits = min(hits, len(self.other))
        queries = self.own.unit_vectors(first, stop)
        ids = self.index.search(queries, hits)
        short = np.flatnonzero(ids[:, min(k, hits) - 1] < 0)
        for some in np.split(short, range(BLOCK, len(short), BLOCK)):
            ids[some, :k] = rows_of(exact(queries[some], self.other, min(k, hits)))
        ids.sort(axis=1)  # those that are none, -1, come first
        ends = np.arange(1, len(ids) + 1) * hits
        return queries, NearLists(ids.reshape(-1), ends - (ids >= 0).sum(axis=1), ends)


def row_bytes(dim: int, hits: int, probes: int = 0) -> int:
    """Bytes of a row while it is looked up and scored."""
    return 4 * dim + _PROBE_BYTES * probes + _HIT_BYTES * hits + 24


def score_span(
    queries: np.ndarray,
    near: NearLists,
    first: int,
    other: SearchSide,
    span: Span,
    own: np.ndarray,
    theirs: np.ndarray,
) -> NearLists:
    """Compute the exact cosines of candidates in a span, and keep the best for the rows of both sides.

    The span is read once, block by block.

    Args:
        queries: Unit vectors [n, d] of own rows from `first` on.
        span: Kept rows of the other side; no candidate comes before it.
        own, theirs: Keys of the best so far, int64 [rows, k], each ascending, of all own rows and of those of
            the span; updated in place.

    Returns:
        The candidates behind the span.
    """
    places, cosines = near.starts.copy(), np.empty(len(near.columns), np.float32)
    block = max(1, BLOCK_BYTES // (4 * max(1, other.dim)))
    for start in range(span.start, span.stop, block):
        vectors = other.unit_vectors(start, min(start + block, span.stop))

        def some(a: int, b: int, vectors: np.ndarray = vectors, start: int = start) -> None:
            ends = near.ends[a:b]
            kernels.score_lists(queries[a:b], vectors, start, near.columns, places[a:b], ends, cosines)

        in_slices(len(queries), some)
    kernels.offer_lists(own, theirs, first, span.start, near.columns, near.starts, places, cosines)
    return near._replace(starts=places)


def search_span(
    direction: Direction, rows: Span, hits: int, k: int, spans: Sequence[Span]
) -> Iterator[np.ndarray]:
    """Search the rows of a span: neighbours for them, and for the rows of the other side that they may be
    near, span by span.

    An answer of an index does not depend on how its rows are cut (`faiss_index.PartitionedIndex`), nor on the
    rows that are looked up with it. So merged lists of all spans of both sides are those of
    `approximate.ann`, to the last bit. (Factory strings with a rotation, OPQ or PCA, are an exception: its
    last bits depend on which rows are rotated together.)

    Args:
        direction: Its own side is the span `rows`.
        hits, k: As for `Direction.look_up`.
        spans: All rows of the other side, in order.

    Yields:
        Lists as of `spans.search_tile`: for each of the spans, and at last for the rows themselves.
    """
    own, other, chunks = direction.own, direction.other, direction.chunks(hits)
    near = [direction.look_up(*chunk, hits, k)[1] for chunk in chunks]
    best = np.full((len(own), k), EMPTY)
    for span in spans:
        kept = Span(*np.searchsorted(other.ids, span).tolist())
        theirs = np.full((kept.rows, k), EMPTY)
        for place, (first, stop) in enumerate(chunks):
            near[place] = score_span(
                own.unit_vectors(first, stop), near[place], first, other, kept, best, theirs
            )
        yield of_whole(theirs, other.ids[slice(*kept)] - span.start, own.ids + rows.start, span.rows, k)
    yield of_whole(best, own.ids, other.ids, rows.rows, k)


def draw(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Sorted places of rows to tune on, and of others to measure on, so that recall is not overestimated."""
    drawn = np.random.default_rng(SEED + 1).permutation(rows)[: TUNED_ON + MEASURED_ON]
    if len(drawn) < 2 * TUNED_ON:
        return np.sort(drawn), np.sort(drawn)
    return np.sort(drawn[:TUNED_ON]), np.sort(drawn[TUNED_ON:])


def exact(queries: np.ndarray, other: SearchSide, k: int) -> np.ndarray:
    """Keys of the k best rows of a side for unit vectors [n, d]: int64 [n, k], ascending."""
    best = np.full((len(queries), k), EMPTY, dtype=np.int64)
    left = torch.from_numpy(queries)
    for start in range(0, len(other), BLOCK):
        block = other.unit_vectors(start, start + BLOCK)
        few = min(k + 4, len(block))  # a few more, as the product may round otherwise than `dots`
        for top in range(0, len(queries), 512):
            near = (left[top : top + 512] @ torch.from_numpy(block).T).topk(few, dim=1).indices.numpy()
            rows, columns = np.repeat(np.arange(top, top + len(near)), few), near.reshape(-1)
            kernels.offer(best, rows, columns + start, dots(queries, block, rows, columns))
    return best
