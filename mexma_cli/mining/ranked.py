"""Sorted scores that need not be in memory: each function reads some of them, or all in blocks."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mexma_cli.store.spool import Spool, parts

_AT_ONCE = 1 << 20


def blocks(count: int) -> Iterator[slice]:
    """Places of `count` scores in blocks."""
    return parts(count, _AT_ONCE)


def ascending(falling: np.ndarray) -> np.ndarray:
    """Scores, best first, the other way round: float64 [n], memory-mapped from a temporary file.

    Raises:
        MexmaError: The temporary disk is full.
    """
    found = Spool(np.float64)
    for part in blocks(len(falling)):
        found.write(falling[::-1][part])
    return found.array()


def spread(ascending: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Up to `most` distinct values, evenly spread by rank among the distinct ones, falling; and the next
    lower one of each, of the lowest one 1e-6 less."""

    def distinct() -> Iterator[np.ndarray]:
        for part in blocks(len(ascending)):
            some = ascending[part]
            before = ascending[part.start - 1] if part.start else np.nan
            yield some[some != np.append(before, some[:-1])]

    count = sum(map(len, distinct()))
    falling = np.unique(np.linspace(0, count - 1, most).astype(np.intp))
    wanted = np.unique(np.append(count - 1 - falling, np.maximum(count - 2 - falling, 0)))
    found, before = [np.empty(0)], 0
    for some in distinct():
        inside = wanted[(wanted >= before) & (wanted < before + len(some))]
        found.append(some[inside - before])
        before += len(some)
    values = np.concatenate(found)
    places = count - 1 - falling
    highest = values[np.searchsorted(wanted, places)]
    lower = np.where(places > 0, values[np.searchsorted(wanted, np.maximum(places - 1, 0))], highest - 1e-6)
    return highest, lower
