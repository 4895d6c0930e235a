"""The time that an exact search will take on this machine: short probes of its costs, scaled up."""

from __future__ import annotations

import numpy as np

from mexma_cli.knn import kernels, tiles
from mexma_cli.knn.choice import choose, pairs_needed, timed
from mexma_cli.knn.sides import Side
from mexma_cli.knn.units import keys_of

_PROBED = 3


def seconds_needed(n: int, m: int, dim: int, k: int) -> float:
    """Seconds for `knn` of n and m rows, from probes on made-up vectors (about a second).

    It assumes that the machine stays as busy as it is now, and random vectors. The two costs are the tiles of
    the matrix, and the pairs that are computed exactly.
    """
    height, width = min(n, 4 * tiles.X_TILE), min(m, tiles.Y_TILE)
    if not height or not width:
        return 0.0
    rng = np.random.default_rng(0)
    x, y = (Side(rng.standard_normal((rows, dim), dtype=np.float32), None) for rows in (height, width))
    nothing = keys_of(np.full(1, 2, np.float32), np.zeros(1, np.int64))  # lists that nothing enters
    lists = np.full((height, min(k, width)), nothing), np.full((width, min(k, height)), nothing)
    product = choose((x, y), (n, m), k)
    search = tiles.Search((x, y), lists, product)
    tile = min(timed(lambda: search.run(tiles.Place(height, 0, 0))) for _ in range(_PROBED))
    rows, columns = (rng.integers(0, size, 20_000) for size in (height, width))
    vectors = x.raw(0, height), y.raw(0, width)
    cosine = min(timed(lambda: kernels.dots(*vectors, rows, columns)) for _ in range(_PROBED))
    pairs = pairs_needed(product, (x.sample(), y.sample()), (n, m), k)
    return n / height * (m / width) * tile + pairs * cosine / len(rows)
