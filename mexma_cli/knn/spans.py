"""A search in tiles: each is searched by itself, anywhere, and their lists are merged to those of one search.

A tile's lists hold exact cosines and the rows of the whole sides. The k best of a union do not depend on the
order in which lists are united, so neither do the merged neighbours, to the last bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mexma_cli.knn.cosines import EMPTY, keys_of, rows_of, scores_of
from mexma_cli.knn.exact_search import search_exactly
from mexma_cli.knn.sides import SearchSide, VectorSource

_MERGED = 1 << 20  # keys that are merged at a time


class Span(NamedTuple):
    """Some rows of a side: from `start` up to `stop`."""

    start: int
    stop: int

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self.stop - self.start


class Window:
    """A span of the rows of a source, as a source."""

    def __init__(self, source: VectorSource, span: Span) -> None:
        self._source, self._start = source, span.start
        self.rows, self.dim = span.rows, source.dim

    def vectors(self, start: int, stop: int) -> np.ndarray:
        """The vectors of rows start to stop, [stop - start, d]."""
        return self._source.vectors(self._start + start, self._start + stop)


def search_tile(
    sides: tuple[VectorSource, VectorSource],
    keep: tuple[np.ndarray, np.ndarray],
    spans: tuple[Span, Span],
    k: int,
) -> tuple[np.ndarray, np.ndarray]:
    """The k nearest rows of the tile's other side, for the rows of both spans.

    Args:
        sides: The whole x and y.
        keep: bool [rows of the span] of both, those that take part.
        spans: The rows of x and of y in the tile.

    Returns:
        Lists of keys (see `keys_of`), int64 [rows of the span, k], each ascending; `EMPTY` where a row
        has fewer neighbours.
    """
    x, y = (SearchSide(Window(side, span), kept) for side, kept, span in zip(sides, keep, spans, strict=True))
    forward, backward = search_exactly(x, y, k)
    ids = x.ids + spans[0].start, y.ids + spans[1].start
    return (
        of_whole(forward, x.ids, ids[1], spans[0].rows, k),
        of_whole(backward, y.ids, ids[0], spans[1].rows, k),
    )


def of_whole(keys: np.ndarray, kept: np.ndarray, others: np.ndarray, rows: int, k: int) -> np.ndarray:
    """Lists of the kept rows of a span as lists of its `rows`, for the whole sides: int64 [rows, k],
    ascending.

    Args:
        keys: int64 [kept rows, up to k], ascending, with places among `others`.
        kept: Which rows of the span these are, int64 [kept rows].
        others: Rows of the other side, int64 [any].
    """
    found, there = np.full((rows, k), EMPTY), keys != EMPTY
    lists = np.full((len(keys), k), EMPTY)
    lists[:, k - keys.shape[1] :][there] = keys_of(scores_of(keys[there]), others[rows_of(keys[there])])
    found[kept] = lists
    return found


def merged(lists: Sequence[np.ndarray], k: int) -> np.ndarray:
    """The k best of several lists of the same rows.

    Args:
        lists: Keys, int64 [n, any]; a key may be in several of them.

    Returns:
        Keys, int64 [n, k], best first; `EMPTY` where there are fewer.
    """
    rows = len(lists[0])
    found = np.empty((rows, k), np.int64)
    step = max(1, _MERGED // max(1, sum(keys.shape[1] for keys in lists)))
    for start in range(0, rows, step):
        part = slice(start, start + step)
        every = np.concatenate([np.full((len(lists[0][part]), k), EMPTY)] + [a[part] for a in lists], 1)
        every.sort(axis=1)
        every[:, 1:][every[:, 1:] == every[:, :-1]] = EMPTY
        first = every.shape[1] - k
        found[part] = np.sort(np.partition(every, first - 1, axis=1)[:, first:], axis=1)[:, ::-1]
    return found


def neighbours_in(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Keys, best first, as `knn.exact.Neighbours` has them: scores float32 and ids int64, of the same shape;
    -inf and -1 for `EMPTY`."""
    return scores_of(keys), np.where(keys == EMPTY, -1, rows_of(keys))
