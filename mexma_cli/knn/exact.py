"""Exact nearest neighbours in both directions from one pass over the similarity matrix.

LASER asks an index twice, once a direction, and so multiplies the same two matrices twice. Here every tile of
`x @ y.T` is estimated once and searched along its rows and along its columns, and only pairs that may be
near, given an estimate's largest error, are computed exactly (exact_search.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from mexma_cli.knn import exact_search
from mexma_cli.knn.cosines import keys_of
from mexma_cli.knn.neighbours import Neighbours
from mexma_cli.knn.sides import SearchSide, VectorSource

if TYPE_CHECKING:
    from mexma_cli.store.journal import FileJournal

_PROBED = 3  # times that a cost of a search is measured; the least counts


def knn(
    x: np.ndarray | VectorSource,
    y: np.ndarray | VectorSource,
    k: int,
    *,
    keep_x: np.ndarray | None = None,
    keep_y: np.ndarray | None = None,
    memory: int | None = None,
    journal: FileJournal | None = None,
    on_progress: Callable[[int, int], object] | None = None,
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
    left, right = SearchSide(x, keep_x), SearchSide(y, keep_y)
    return Neighbours.of(
        exact_search.search_exactly(left, right, k, memory, journal, on_progress), left, right
    )


def seconds_needed(n: int, m: int, dim: int, k: int) -> float:
    """Seconds for `knn` of n and m rows, from probes on made-up vectors (about a second).

    It assumes that the machine stays as busy as it is now, and random vectors. The two costs are the tiles of
    the matrix, and the pairs that are computed exactly.
    """
    from mexma_cli.knn import kernels
    from mexma_cli.knn.choice import choose_product, pairs_needed, timed

    height, width = min(n, 4 * exact_search.X_TILE), min(m, exact_search.Y_TILE)
    if not height or not width:
        return 0.0
    rng = np.random.default_rng(0)
    x, y = (SearchSide(rng.standard_normal((rows, dim), dtype=np.float32), None) for rows in (height, width))
    nothing = keys_of(np.full(1, 2, np.float32), np.zeros(1, np.int64))  # lists that nothing enters
    lists = np.full((height, min(k, width)), nothing), np.full((width, min(k, height)), nothing)
    product = choose_product((x, y), (n, m), k)
    search = exact_search.ExactSearch((x, y), lists, product)
    tile = min(timed(lambda: search.run(exact_search.SearchPlace(height, 0, 0))) for _ in range(_PROBED))
    rows, columns = (rng.integers(0, size, 20_000) for size in (height, width))
    vectors = x.raw(0, height), y.raw(0, width)
    cosine = min(timed(lambda: kernels.dots(*vectors, rows, columns)) for _ in range(_PROBED))
    pairs = pairs_needed(product, (x.sample(), y.sample()), (n, m), k)
    return n / height * (m / width) * tile + pairs * cosine / len(rows)
