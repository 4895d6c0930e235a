"""A search with indexes in pieces that any process may do: rows are put into copies of a trained index span
by span, looked up span by span in all of these, and what was found gets exact cosines tile by tile.

An answer does not depend on how the rows of an index are cut (`faiss_index.Parts`), nor on the rows that are
looked up with it, and a tile's lists are those of `tiled.search_tile`, of which the best are merged. So the
neighbours are those of `approximate.ann`, to the last bit, whatever the spans are. (Factory strings with a
rotation, OPQ or PCA, are an exception: its last bits depend on which rows are rotated together.)
"""

from __future__ import annotations

import numpy as np

from mexma_cli.knn.index_search import Best, Direction
from mexma_cli.knn.keys import EMPTY, keys_of, rows_of, scores_of
from mexma_cli.knn.sides import Side, VectorSource
from mexma_cli.knn.tiled import Span, Window

WORKING = 4 << 30
"""Bytes by which rows are looked up at a time: a fourth of it is taken."""
ROWS = 1 << 16
"""Rows of either side whose vectors are in memory while their cosines are computed."""


def look_up(direction: Direction, hits: int, k: int) -> np.ndarray:
    """Look up the rows of a span in an index.

    Args:
        direction: Its own side is a span.
        hits, k: As for `Direction.answers`.

    Returns:
        Pairs, int64 [p], ascending: 2^32 times the row of the whole other side, plus the row of the span.
    """
    found = [np.empty(0, np.int64)]
    for first, _, places in direction.answers(0, hits, k, WORKING):
        rows, columns = np.nonzero(places >= 0)
        others = direction.other.ids[places[rows, columns]]
        found.append((others << 32) + direction.own.ids[rows + first])
    return np.sort(np.concatenate(found))


def in_tile(pairs: np.ndarray, span: Span) -> np.ndarray:
    """Those of `look_up` whose row of the other side is in a span."""
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

    Args:
        sides, keep, spans: As for `tiled.search_tile`.
        pairs: What `look_up` found in the tile for rows of x, and for rows of y, see `in_tile`.

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
    places = np.divmod(both, max(1, len(y)))
    forward, backward = (np.full((len(side), k), EMPTY) for side in (x, y))
    best = Best(forward, backward, y, ROWS)
    for start in range(0, len(x), ROWS):
        low, high = np.searchsorted(places[0], (start, start + ROWS)).tolist()
        if high > low:
            queries = x.units(start, start + ROWS)
            best.take(queries, start, places[0][low:high] - start, places[1][low:high])
    return _rows_of_all(forward, x, y, spans[1].start), _rows_of_all(backward, y, x, spans[0].start)


def _rows_of_all(keys: np.ndarray, own: Side, other: Side, first: int) -> np.ndarray:
    """Keys of kept rows, with places of the other span -> keys of all rows of the span, with rows of the
    whole other side."""
    found = np.full((own.rows, keys.shape[1]), EMPTY)
    there = keys != EMPTY
    of_kept = np.full(keys.shape, EMPTY)
    ids = other.ids[rows_of(keys[there])] + first
    of_kept[there] = keys_of(scores_of(keys[there]), ids)
    found[own.ids] = of_kept
    return found
