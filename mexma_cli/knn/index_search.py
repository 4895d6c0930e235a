"""The search by indexes: rows of one side are looked up in an index over the other, and what is found gets
exact cosines. One process does it for all rows; several do it span by span, and the cosines tile by tile.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from mexma_cli.knn import kernels
from mexma_cli.knn.faiss_index import BLOCK, SEED, PartitionedIndex
from mexma_cli.knn.sides import Side, VectorSource, dots
from mexma_cli.knn.tiled import Span, Window, of_whole
from mexma_cli.knn.units import EMPTY, rows_of
from mexma_cli.numerics.threads import in_slices

TUNED_ON, MEASURED_ON = 256, 512  # rows a direction
ROWS = 1 << 16
"""Rows of x in a tile whose vectors are in memory while their cosines are computed."""
CHUNK = 1 << 28
"""Bytes in which rows are looked up and scored at a time, where the memory has no limit."""
BLOCK_BYTES = 1 << 22
"""Bytes of the other side's vectors while cosines with them are computed: so few that they are in the
processor's cache."""
_AT_ONCE = 1024  # rows are looked up in multiples of it
_PROBE_BYTES = 12  # a list and how near it is
_HIT_BYTES = 12  # an id and a cosine


class Candidates(NamedTuple):
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

    own: Side
    other: Side
    index: PartitionedIndex

    def chunks(self, hits: int, start: int = 0, memory: int = CHUNK) -> list[tuple[int, int]]:
        """Cut the own rows from `start` on into those that are looked up and scored at a time.

        Args:
            memory: Bytes that this may take.
        """
        vectors = 2 if self.index.transforms else 1
        row = vectors * 4 * self.own.dim + _PROBE_BYTES * self.index.probes + _HIT_BYTES * hits + 24
        rows = max(64, memory // row // _AT_ONCE * _AT_ONCE)
        return [(first, min(first + rows, len(self.own))) for first in range(start, len(self.own), rows)]

    def look_up(self, first: int, stop: int, hits: int, k: int) -> tuple[np.ndarray, Candidates]:
        """Look up own rows first to stop.

        Args:
            hits: Answers of the index that are wanted for each row.

        Returns:
            Their unit vectors [n, d], and the places of rows that are near them: exactly the k nearest,
            where the index has fewer.
        """
        hits = min(hits, len(self.other))
        queries = self.own.units(first, stop)
        ids = self.index.search(queries, hits)
        short = np.flatnonzero(ids[:, min(k, hits) - 1] < 0)
        for some in np.split(short, range(BLOCK, len(short), BLOCK)):
            ids[some, :k] = rows_of(exact(queries[some], self.other, min(k, hits)))
        ids.sort(axis=1)  # those that are none, -1, come first
        ends = np.arange(1, len(ids) + 1) * hits
        return queries, Candidates(ids.reshape(-1), ends - (ids >= 0).sum(axis=1), ends)


def score(
    queries: np.ndarray, near: Candidates, first: int, other: Side, own: np.ndarray, theirs: np.ndarray
) -> None:
    """Compute the exact cosines of candidates, and keep the best for the rows of both sides.

    The other side is read once, block by block.

    Args:
        queries: Unit vectors [n, d] of own rows from `first` on.
        own, theirs: Keys of the best so far, int64 [rows, k], each ascending; updated in place.
    """
    places, cosines = near.starts.copy(), np.empty(len(near.columns), np.float32)
    block = max(1, BLOCK_BYTES // (4 * max(1, other.dim)))
    for start in range(0, len(other), block):
        vectors = other.units(start, start + block)

        def some(a: int, b: int, vectors: np.ndarray = vectors, start: int = start) -> None:
            ends = near.ends[a:b]
            kernels.score_lists(queries[a:b], vectors, start, near.columns, places[a:b], ends, cosines)

        in_slices(len(queries), some)
    kernels.offer_lists(own, theirs, first, *near, cosines)


def pairs_of(direction: Direction, hits: int, k: int) -> np.ndarray:
    """Look up the rows of a span in an index.

    Args:
        direction: Its own side is a span.
        hits, k: As for `Direction.look_up`.

    Returns:
        Pairs, int64 [p], ascending: 2^32 times the row of the whole other side, plus the row of the span.
    """
    found = [np.empty(0, np.int64)]
    for first, stop in direction.chunks(hits):
        columns, starts, ends = direction.look_up(first, stop, hits, k)[1]
        rows = np.repeat(direction.own.ids[first:stop], ends - starts)
        found.append((direction.other.ids[columns[columns >= 0]] << 32) + rows)
    return np.sort(np.concatenate(found))


def in_tile(pairs: np.ndarray, span: Span) -> np.ndarray:
    """The pairs of `pairs_of` whose row of the other side is in a span."""
    low, high = np.searchsorted(pairs, [span.start << 32, span.stop << 32])
    return pairs[low:high]


def score_tile(
    sides: tuple[VectorSource, VectorSource],
    keep: tuple[np.ndarray, np.ndarray],
    spans: tuple[Span, Span],
    pairs: tuple[np.ndarray, np.ndarray],
    k: int,
) -> tuple[np.ndarray, np.ndarray]:
    """The k nearest rows of the tile's other side, for the rows of both spans, among pairs that were found.

    An answer of an index does not depend on how its rows are cut (`faiss_index.PartitionedIndex`), nor on the
    rows that are looked up with it. So merged lists of tiles are those of `approximate.ann`, to the last bit,
    whatever the spans are. (Factory strings with a rotation, OPQ or PCA, are an exception: its last bits
    depend on which rows are rotated together.)

    Args:
        sides, keep, spans: As for `tiled.search_tile`.
        pairs: What `pairs_of` found in the tile for rows of x, and for rows of y, see `in_tile`.

    Returns:
        As `tiled.search_tile`.
    """
    x, y = (Side(Window(side, span), kept) for side, kept, span in zip(sides, keep, spans, strict=True))
    others, own = zip(*(np.divmod(found, 1 << 32) for found in pairs), strict=True)
    rows = np.concatenate([own[0], others[1] - spans[0].start])
    columns = np.concatenate([others[0] - spans[1].start, own[1]])
    both = np.sort(np.searchsorted(x.ids, rows) * len(y) + np.searchsorted(y.ids, columns))
    last = np.append(both[1:] != both[:-1], True)[: len(both)]  # of equal ones: np.unique takes far longer
    both = both[last]
    forward, backward = (np.full((len(side), k), EMPTY) for side in (x, y))
    for first in range(0, len(x), ROWS):
        queries = x.units(first, first + ROWS)
        borders = np.searchsorted(both, np.arange(first, first + len(queries) + 1) * len(y))
        columns = both[borders[0] : borders[-1]] % max(1, len(y))
        borders -= borders[0]
        score(queries, Candidates(columns, borders[:-1], borders[1:]), first, y, forward, backward)
    return of_whole(forward, x, y, spans[1].start, k), of_whole(backward, y, x, spans[0].start, k)


def draw(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Sorted places of rows to tune on, and of others to measure on, so that recall is not overestimated."""
    drawn = np.random.default_rng(SEED + 1).permutation(rows)[: TUNED_ON + MEASURED_ON]
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
