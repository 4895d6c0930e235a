"""How long an exact search will take here: a few probes of its three costs, scaled up."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import numpy as np

from mexma_cli.mining import kernels, neighbours
from mexma_cli.mining.blocks import Side, choose_arithmetic

_SPARE = 1.5  # pairs computed for every one that enters a list, as estimates are not exact
_PROBED = 3


def seconds_needed(n: int, m: int, dim: int, k: int) -> float:
    """Seconds for `knn` of n and m rows, from probes on made-up vectors (about a second).

    The matrix is made and looked at tile by tile; on top of that a row's list of k best changes about
    k (1 + ln(m / k)) times while m candidates go by, as in any random order, and each change costs a cosine.
    """
    height, width = min(n, neighbours.X_TILE), min(m, neighbours.Y_TILE)
    if not height or not width:
        return 0.0
    rng = np.random.default_rng(0)
    x, y = (Side(rng.standard_normal((rows, dim), dtype=np.float32), None) for rows in (height, width))
    forward = np.full((height, min(k, width)), kernels.key(np.float32(2), 0))  # lists that nothing enters
    backward = np.full((width, min(k, height)), kernels.key(np.float32(2), 0))
    arithmetic = choose_arithmetic(n * m * dim, dim)
    sweep = neighbours.Sweep(x, y, forward, backward, arithmetic)
    tile = min(_seconds(lambda: sweep.run(neighbours.Place(height, 0, 0))) for _ in range(_PROBED))
    rows, columns = (rng.integers(0, size, 20_000) for size in (height, width))
    vectors = x.raw(0, height), y.raw(0, width)
    cosine = min(_seconds(lambda: kernels.dots(*vectors, rows, columns)) for _ in range(_PROBED)) / 20_000
    changes = n * _changes(m, k) + m * _changes(n, k)
    return n / height * (m / width) * tile + _SPARE * changes * cosine


def _changes(candidates: int, k: int) -> float:
    k = min(k, candidates)
    return k * (1 + math.log(candidates / k))


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
