"""Exact nearest neighbours in both directions from one pass over the similarity matrix.

LASER asks an index twice, once a direction, and so multiplies the same two matrices twice. Here every tile of
`x @ y.T` is estimated once, in the arithmetic that is fastest on the machine, and searched along its rows and
along its columns (sweep.py). Pairs that may be near, given an estimate's largest error, are computed exactly
and checked against that error; if one exceeds it, the search starts again in float32.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mexma_cli.errors import MexmaError
from mexma_cli.knn import kernels, tiles
from mexma_cli.knn.arithmetic import FLOAT32, Arithmetic, choose_arithmetic
from mexma_cli.knn.blocks import Side, VectorSource, pairs_expected
from mexma_cli.knn.journal import Journal, Place
from mexma_cli.knn.sweep import Sweep, bytes_needed
from mexma_cli.text import amounts

log = logging.getLogger(__name__)

X_ROWS = 1 << 16
"""Rows of x that are held at once where the memory has no limit; more would not make it faster."""
MORE_MEMORY = "more --memory, a smaller -k, or the text in parts"


class TooLittleMemory(MexmaError):
    """A search cannot be done in the memory that it was given; `needed` are the bytes in which it can."""

    def __init__(self, message: str, needed: int, hint: str = MORE_MEMORY) -> None:
        super().__init__(message, hint)
        self.needed = needed


@dataclass(frozen=True)
class Neighbours:
    """The nearest rows of the other side, by cosine, for every row of both sides.

    `forward_scores` float32 [N, k] and `forward_ids` int64 [N, k] belong to the rows of x and point into y;
    `backward_scores` [M, k'] and `backward_ids` [M, k'] the other way round. Each row is sorted by (score
    descending, id ascending). k is at most the number of candidates. A row that was left out has ids of -1
    and scores of -inf, and is nobody's neighbour.
    """

    forward_scores: np.ndarray
    forward_ids: np.ndarray
    backward_scores: np.ndarray
    backward_ids: np.ndarray

    def first(self, k: int) -> Neighbours:
        """The k nearest of every row, without a copy."""
        return Neighbours(*(values[:, :k] for values in vars(self).values()))


def knn(
    x: np.ndarray | VectorSource,
    y: np.ndarray | VectorSource,
    k: int,
    *,
    keep_x: np.ndarray | None = None,
    keep_y: np.ndarray | None = None,
    memory: int | None = None,
    journal: Journal | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> Neighbours:
    """Find the k nearest rows by cosine, from x to y and from y to x, exactly in float32.

    The result does not depend on the memory, the arithmetic or an interruption, to the last bit.

    Args:
        x, y: [N, d] and [M, d], arrays or sources that are read block by block. Rows need not be normalised;
            a row of zeros has cosine 0 with everything. Not-finite numbers are a ValueError.
        k: neighbours a row; a side with fewer rows gives as many as it has.
        keep_x, keep_y: bool [N] and [M], False for rows that take no part. Default: all take part.
        memory: bytes that the search may take, x and y themselves not counted. Default: what is fastest.
        journal: takes the lists so far from time to time, and gives them back to the next run.
        on_progress: called with (tiles done, tiles in all).

    Raises:
        TooLittleMemory: It cannot be done in that much memory.
        MexmaError: This machine has no such device as `computing_on` names.
    """
    if k < 1:
        raise ValueError(f"k must be at least 1, not {k}")
    left, right = Side(x, keep_x), Side(y, keep_y)
    if left.dim != right.dim:
        raise ValueError(f"vectors of {left.dim} and of {right.dim} dimensions")
    if len(right) > 0xFFFFFFFF or len(left) > 0xFFFFFFFF:
        raise ValueError("more than 2^32 rows")
    size = len(left), len(right), left.dim, k
    rows = _rows_at_once(*size, memory)
    forward = np.full((len(left), min(k, len(right))), kernels.EMPTY, dtype=np.int64)
    backward = np.full((len(right), min(k, len(left))), kernels.EMPTY, dtype=np.int64)
    kept = journal.load(forward, backward) if journal else None
    place = Place(*kept) if kept else Place(rows, 0, 0)
    if memory is not None and place.rows > rows:
        begun_with = bytes_needed(*size, place.rows)
        raise TooLittleMemory(
            f"this search was begun with more memory, {amounts.size(begun_with)}",
            begun_with,
            "give that much to go on with it, or remove its folder to start anew",
        )
    sweep = Sweep(left, right, forward, backward, arithmetic_for(left, right, (len(left), len(right)), k))
    sweep.run(place, journal, on_progress)
    if sweep.broken:
        log.warning("warning: products here are less exact than they should be: once more in float32")
        forward.fill(kernels.EMPTY)
        backward.fill(kernels.EMPTY)
        start = Place(place.rows, 0, 0)
        if journal:
            journal.save(start, forward, backward)  # or a later entry would rest on the wrong lists
        Sweep(left, right, forward, backward, FLOAT32).run(start, journal, on_progress)
    return Neighbours(*unpack(forward, left, right), *unpack(backward, right, left))


def arithmetic_for(left: Side, right: Side, sizes: tuple[int, int], k: int) -> Arithmetic:
    """The fastest arithmetic for sides of these sizes whose rows are like those of left and right."""
    pairs = functools.partial(pairs_expected, left, right, sizes, k)
    return choose_arithmetic(sizes[0] * sizes[1] * left.dim, left.dim, pairs)


def least_bytes(n: int, m: int, dim: int, k: int) -> int:
    """Bytes without which `knn` of n and m rows is refused."""
    return bytes_needed(n, m, dim, k, min(n, tiles.X_TILE))


def _rows_at_once(n: int, m: int, dim: int, k: int, memory: int | None) -> int:
    """Rows of x to hold: as many as fit."""
    most = min(n, X_ROWS)
    if memory is None or bytes_needed(n, m, dim, k, most) <= memory:
        return most
    needed = least_bytes(n, m, dim, k)
    if needed > memory:
        raise TooLittleMemory(
            f"{k} neighbours of {n:,} and {m:,} rows of {dim} dimensions need {amounts.size(needed)}, "
            f"{amounts.size(max(memory, 0))} are left for them",
            needed,
        )
    spare = memory - bytes_needed(n, m, dim, k, 0)
    return max(min(n, tiles.X_TILE), spare // (10 * dim + 32) // tiles.X_TILE * tiles.X_TILE)


def unpack(keys: np.ndarray, own: Side, other: Side) -> tuple[np.ndarray, np.ndarray]:
    """Keys of kept rows, ascending -> scores and ids of all rows, best first."""
    scores = np.full((own.rows, keys.shape[1]), -np.inf, dtype=np.float32)
    ids = np.full((own.rows, keys.shape[1]), -1, dtype=np.int64)
    for start in range(0, len(keys), X_ROWS):
        part, rows = keys[start : start + X_ROWS, ::-1], own.ids[start : start + X_ROWS]
        scores[rows] = kernels.scores_of(part)
        ids[rows] = other.ids[kernels.rows_of(part)] if part.size else -1
    return scores, ids
