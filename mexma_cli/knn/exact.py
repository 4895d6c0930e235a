"""Exact nearest neighbours in both directions from one pass over the similarity matrix.

LASER asks an index twice, once a direction, and so multiplies the same two matrices twice. Here every tile of
`x @ y.T` is estimated once and searched along its rows and along its columns, and only pairs that may be
near, given an estimate's largest error, are computed exactly (tiles.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from mexma_cli.knn.neighbours import Neighbours
from mexma_cli.knn.sides import Side, VectorSource
from mexma_cli.knn.tiles import search

if TYPE_CHECKING:
    from mexma_cli.store.journal import FileJournal


def knn(
    x: np.ndarray | VectorSource,
    y: np.ndarray | VectorSource,
    k: int,
    *,
    keep_x: np.ndarray | None = None,
    keep_y: np.ndarray | None = None,
    memory: int | None = None,
    journal: FileJournal | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> Neighbours:
    """Find the k nearest rows by cosine, from x to y and from y to x, exactly.

    The result does not depend on the memory, the arithmetic, the processor or an interruption, to the last
    bit.

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
    left, right = Side(x, keep_x), Side(y, keep_y)
    return Neighbours.of(search(left, right, k, memory, journal, on_progress), left, right)
