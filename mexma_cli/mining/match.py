"""From neighbours to pairs: which of the candidates are taken.

Neighbours are looked at in blocks; candidates are sorted, and pairs kept, in temporary files. So this takes
less than a gigabyte and a bit for each row, however long the texts are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import numpy as np

from mexma_cli.knn.neighbours import Neighbours
from mexma_cli.mining import lists
from mexma_cli.mining.candidates import PAIR, Candidates, SortedPairs, spooled_pairs
from mexma_cli.mining.lists import Sides, means_of, row_blocks, sides_of
from mexma_cli.mining.margin import margin
from mexma_cli.mining.retrieval import retrieval_of
from mexma_cli.settings.stages import MineSettings
from mexma_cli.store.spool import GATHERED, bytes_to_sort, gathered, slices_of

Means = tuple[np.ndarray, np.ndarray]

_ENTRIES = 1 << 20  # neighbours looked at together: about 50 MB of temporary arrays
_ENTRY_BYTES = 50


def match(neighbours: Neighbours | Sides, settings: MineSettings, *, one_text: bool = False) -> Candidates:
    """Take pairs from neighbours as LASER's mine_bitexts.py does, memory-mapped, best first; the threshold of
    the settings drops none of them yet.

    Args:
        neighbours: Of both directions.
        settings: They name the margin, and one of the `RETRIEVALS`. With max, a better pair claims its rows
            even if a threshold then drops it.
        one_text: The neighbours are `others` of a text. Each pair comes once, the lower row as its source;
            with max each row is in one pair at most, be it as source or as target; forward and backward are
            the same.

    Raises:
        MexmaError: The temporary disk is full, or a file of neighbours is damaged.
    """
    sides = sides_of(neighbours)
    rows = sides[0].count, sides[1].count
    return taken_of(_candidates(sides, settings, one_text), settings, rows, one_text)


def taken_of(
    candidates: Iterable[Candidates], settings: MineSettings, rows: tuple[int, int], one_text: bool = False
) -> Candidates:
    """The pairs that the retrieval takes of candidates, however these were found; memory-mapped, best first.

    Args:
        rows: Of both texts.
    """
    found = SortedPairs()
    for some in candidates:
        found.add(some)
    taking = retrieval_of(settings).taking(rows, one_text)
    return spooled_pairs(pairs.take(taking.taken(pairs)) for pairs in found.merged())


def bytes_to_mine(rows: int, k: int) -> int:
    """Bytes of memory that mining takes for so many rows of both sides: pairs are matched in blocks, with a
    bit a row, and then their sentences are looked up, a hundredth of the pairs at a time."""
    block = min(lists.BLOCK_ROWS, rows // 2)  # of one side
    looking = block * (_ENTRY_BYTES * k + 4 * PAIR.itemsize) + 4 * min(GATHERED, rows)
    return max(looking + bytes_to_sort(rows, PAIR) + rows // 8, rows * 60 // 100)


def _candidates(sides: Sides, settings: MineSettings, one_text: bool) -> Iterator[Candidates]:
    background = means_of(sides[0]), means_of(sides[1])
    if not one_text:
        for side in retrieval_of(settings).sides:
            yield from _of_side(sides, background, settings, bool(side))
        return
    for pairs in _of_side(sides, background, settings, backward=False):  # the others are mirror images
        lower, upper = np.minimum(pairs.source, pairs.target), np.maximum(pairs.source, pairs.target)
        yield replace(pairs, source=lower, target=upper)


def _of_side(sides: Sides, background: Means, settings: MineSettings, backward: bool) -> Iterator[Candidates]:
    """The candidates of one direction, in blocks of rows: the best of each row, or all that are new."""
    own, (own_mean, other_mean) = sides[backward], background[::-1] if backward else background
    every = retrieval_of(settings).every
    for rows in row_blocks(own.count, _ENTRIES // 16 if every else lists.BLOCK_ROWS):
        cosines, ids = own.at(rows)
        near = gathered(other_mean, ids)
        if every:
            scores = _margins(cosines, ids, own_mean[rows], near, settings.margin)
            row, place = np.nonzero(ids >= 0)
            found = Candidates(scores[row, place], rows[row], ids[row, place], cosines[row, place])
        else:
            found = best_of(cosines, ids, own_mean[rows], near.__getitem__, settings.margin)
            found = replace(found, source=rows[found.source])
        if backward:
            found = found.turned()
        if every and backward:  # what came from the other direction has come
            known = sides[0].at(found.source)[1]
            found = found.take((known != found.target[:, None]).all(axis=1))
        yield found


def best_of(
    cosines: np.ndarray,
    ids: np.ndarray,
    own_mean: np.ndarray,
    near_mean: Callable[[np.ndarray], np.ndarray],
    name: str,
) -> Candidates:
    """Every row, as source, with the best of its neighbours by margin, in row order.

    Of equal margins the nearer neighbour is taken, then the lower row. Rows that were left out are absent.
    Float addition commutes, so both directions score alike.

    Args:
        cosines, ids: [n, k], of the rows' neighbours.
        own_mean: float32 [n], of the rows' neighbourhoods.
        near_mean: From rows, int64 [m], to those of their neighbours, [m, k].
    """
    rows = np.flatnonzero(ids[:, 0] >= 0) if ids.shape[1] else np.empty(0, np.int64)
    best, scores = np.empty(len(rows), np.int64), np.empty(len(rows), np.float32)
    nearness = np.empty(len(rows), np.float32)
    for part in slices_of(len(rows), max(1, _ENTRIES // max(1, ids.shape[1]))):
        own = rows[part]
        near, other = cosines[own], ids[own]
        margins = _margins(near, other, own_mean[own], near_mean(own), name)
        place = margins.argmax(axis=1)[:, None]
        best[part] = np.take_along_axis(other, place, 1)[:, 0]
        scores[part] = np.take_along_axis(margins, place, 1)[:, 0]
        nearness[part] = np.take_along_axis(near, place, 1)[:, 0]
    return Candidates(scores, rows, best, nearness)


def _margins(
    cosines: np.ndarray, ids: np.ndarray, own_mean: np.ndarray, near_mean: np.ndarray, name: str
) -> np.ndarray:
    """Margins [n, k] of some rows' neighbours; -inf where a row has fewer than k."""
    scores = margin(cosines, own_mean[:, None], near_mean, name)
    absent = ids < 0
    if absent.any():
        scores = np.where(absent, np.float32(-np.inf), scores)
    return scores


def rank_of(ids: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Place, from 1, of `wanted` [n] in the rows of `ids` [n, k]; 0 where it is not there."""
    if not ids.shape[1]:
        return np.zeros(len(ids), np.int64)
    hits = ids == wanted[:, None]
    return np.where(hits.any(axis=1), hits.argmax(axis=1) + 1, 0)
