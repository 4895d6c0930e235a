"""The inner loops of the search for neighbours, compiled by Numba: no matrix library has them.

A pair's cosine always comes from the same loop over its two rows, so it is the same number to the last bit
however the matrix was cut into tiles, from whichever direction the pair was found, and after a resumed run.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from numba import njit

EMPTY = np.iinfo(np.int64).min
"""The key of a place in a list of k best that nobody has taken."""
_PARALLEL_FROM = 1 << 22  # multiplications; below that a thread costs more than it brings

_compiled = functools.partial(njit, nogil=True, cache=True, error_model="numpy")
# Sums may be reordered, so that they become vector instructions; not-a-number keeps its meaning.
_summing = functools.partial(_compiled, fastmath={"reassoc", "contract", "nsz"})


def dots(x: np.ndarray, y: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Dot products of pairs of rows, float32 [p].

    Args:
        x, y: float32 [n, d] and [m, d], each row contiguous.
        rows, columns: int64 [p], rows of x and of y.
    """
    out = np.empty(len(rows), dtype=np.float32)
    work = len(rows) * x.shape[1]
    in_slices(len(rows), lambda a, b: _dots(x, y, rows[a:b], columns[a:b], out[a:b]), work)
    return out


def in_slices(count: int, task: Callable[[int, int], object], work: int = _PARALLEL_FROM) -> None:
    """Run `task(start, stop)` over [0, count), on as many threads as torch may use; Numba code is free of
    the interpreter's lock.

    Args:
        work: About how many multiplications there are in all.
    """
    threads = torch.get_num_threads() if work >= _PARALLEL_FROM else 1
    if threads == 1 or count < 2:
        task(0, count)
        return
    borders = np.linspace(0, count, threads + 1).astype(int).tolist()
    for done in [_pool(threads).submit(task, *border) for border in zip(borders, borders[1:], strict=False)]:
        done.result()


@functools.cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="mexma-mining")


@_summing()
def _dot(a: np.ndarray, b: np.ndarray) -> np.float32:
    total = np.float32(0)
    for i in range(len(a)):
        total += a[i] * b[i]
    return total


@_compiled()
def _dots(x: np.ndarray, y: np.ndarray, rows: np.ndarray, columns: np.ndarray, out: np.ndarray) -> None:
    for pair in range(len(rows)):
        out[pair] = _dot(x[rows[pair]], y[columns[pair]])
