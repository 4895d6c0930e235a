"""From neighbours to pairs: which of the candidates are taken.

Neighbours are looked at in blocks; candidates are sorted, and pairs kept, in temporary files. So this takes
less than a gigabyte and a bit for each row, however long the texts are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache

import numpy as np

from mexma_cli.knn.neighbours import Neighbours
from mexma_cli.mining import lists
from mexma_cli.mining.candidates import PAIR, Candidates, SortedPairs, spooled
from mexma_cli.mining.lists import Sides, means_of, row_blocks, sides_of
from mexma_cli.mining.margin import margin
from mexma_cli.store.spool import GATHERED, bytes_to_sort, gathered, slices_of

RETRIEVALS = ("max", "intersect", "forward", "backward", "all")

Means = tuple[np.ndarray, np.ndarray]

_ENTRIES = 1 << 20  # neighbours looked at together: about 50 MB of temporary arrays
_ENTRY_BYTES = 50
COMPILED_FROM = 1 << 17
"""Pairs for which it pays to wait for Numba."""


def match(
    neighbours: Neighbours | Sides,
    kind: str = "ratio",
    retrieval: str = "max",
    threshold: float | None = None,
    *,
    one_text: bool = False,
) -> Candidates:
    """Take pairs from neighbours as LASER's mine_bitexts.py does.

    Args:
        neighbours: Of both directions.
        kind: The margin that scores a pair.
        retrieval: forward: every source row with the best of its neighbours by margin; backward: every target
            row; intersect: the pairs that both chose; max: both together, best first, each row in one pair at
            most. A better pair claims its rows even if the threshold then drops it. all: every neighbour of
            every row, each pair once.
        threshold: Keep scores greater than this. None: max keeps scores above 0, the others everything.
        one_text: The neighbours are `others` of a text. Each pair comes once, the lower row as its source;
            with max each row is in one pair at most, be it as source or as target; forward and backward are
            the same.

    Raises:
        MexmaError: The temporary disk is full, or a file of neighbours is damaged.
    """
    if retrieval not in RETRIEVALS:
        raise ValueError(f"retrieval {retrieval!r} is none of {', '.join(RETRIEVALS)}")
    sides = sides_of(neighbours)
    background = means_of(sides[0]), means_of(sides[1])
    found = SortedPairs()
    if one_text:  # both directions are alike, so one of them has all pairs, and their mirror images
        for pairs in _candidates(sides, background, kind, retrieval, backward=False):
            lower, upper = np.minimum(pairs.source, pairs.target), np.maximum(pairs.source, pairs.target)
            found.add(replace(pairs, source=lower, target=upper))
    else:
        for backward in (False, True):
            if retrieval != ("forward" if backward else "backward"):
                for pairs in _candidates(sides, background, kind, retrieval, backward):
                    found.add(pairs)
    return taken_of(found, retrieval, (sides[0].count, sides[1].count), one_text).cut(retrieval, threshold)


def bytes_to_mine(rows: int, k: int) -> int:
    """Bytes of memory that mining takes for so many rows of both sides: pairs are matched in blocks, with a
    bit a row, and then their sentences are looked up, a hundredth of the pairs at a time."""
    block = min(lists.BLOCK_ROWS, rows // 2)  # of one side
    looking = block * (_ENTRY_BYTES * k + 4 * PAIR.itemsize) + 4 * min(GATHERED, rows)
    return max(looking + bytes_to_sort(rows, PAIR) + rows // 8, rows * 60 // 100)


def _candidates(
    sides: Sides, background: Means, kind: str, retrieval: str, backward: bool
) -> Iterator[Candidates]:
    """The candidates of one direction, in blocks of rows: the best of each row, or all that are new."""
    own, (own_mean, other_mean) = sides[backward], background[::-1] if backward else background
    every = retrieval == "all"
    for rows in row_blocks(own.count, _ENTRIES // 16 if every else lists.BLOCK_ROWS):
        cosines, ids = own.at(rows)
        near = gathered(other_mean, ids)
        if every:
            scores = _margins(cosines, ids, own_mean[rows], near, kind)
            row, place = np.nonzero(ids >= 0)
            found = Candidates(scores[row, place], rows[row], ids[row, place], cosines[row, place])
        else:
            found = best_of(cosines, ids, own_mean[rows], near.__getitem__, kind)
            found = replace(found, source=rows[found.source])
        if backward:
            found = found.turned()
        if every and backward:  # what came from the other direction has come
            known = sides[0].at(found.source)[1]
            found = found.take((known != found.target[:, None]).all(axis=1))
        yield found


def taken_of(
    candidates: SortedPairs, retrieval: str, rows: tuple[int, int], one_text: bool = False
) -> Candidates:
    """The pairs that are taken of candidates, memory-mapped, best first.

    Args:
        rows: Of both texts.
    """
    matching = Matching(retrieval, rows, one_text)
    return spooled(pairs.take(matching.taken(pairs)) for pairs in candidates.merged())


class Matching:
    """Which candidates are taken, where they come best first, in blocks.

    A pair that is the best of both its rows comes twice, with the same score, so one after the other. Takes
    a bit for each row.

    Args:
        retrieval: max: a pair is taken if neither of its rows is taken before; intersect: if it comes twice;
            else once.
        rows: Of source and target.
        one_text: These are the same rows.
    """

    def __init__(self, retrieval: str, rows: tuple[int, int], one_text: bool = False) -> None:
        self._retrieval = retrieval
        bits = [np.zeros(-(-count // 8) if retrieval == "max" else 0, np.uint8) for count in rows]
        self._taken = [bits[0], bits[0]] if one_text else bits
        self._last = -1, -1

    def taken(self, pairs: Candidates) -> np.ndarray:
        """bool [n], for the n pairs that come next."""
        if self._retrieval == "max":
            claim = _claim if len(pairs) < COMPILED_FROM else _claim_compiled()
            return claim(pairs.source, pairs.target, *self._taken)
        source, target = np.append(self._last[0], pairs.source), np.append(self._last[1], pairs.target)
        self._last = source[-1], target[-1]
        again = (source[1:] == source[:-1]) & (target[1:] == target[:-1])
        return again if self._retrieval == "intersect" else ~again


def _claim(
    source: np.ndarray, target: np.ndarray, taken_sources: np.ndarray, taken_targets: np.ndarray
) -> np.ndarray:
    """Which pairs [n] find both rows free and take them, bool [n]; one after the other."""
    chosen = np.zeros(len(source), dtype=np.bool_)
    for place in range(len(source)):
        own, other = source[place], target[place]
        own_bit, other_bit = 1 << (own & 7), 1 << (other & 7)
        if not (taken_sources[own >> 3] & own_bit or taken_targets[other >> 3] & other_bit):
            taken_sources[own >> 3] |= own_bit
            taken_targets[other >> 3] |= other_bit
            chosen[place] = True
    return chosen


@cache
def _claim_compiled() -> Callable[..., np.ndarray]:
    from mexma_cli.numerics.compiling import compiled

    return compiled()(_claim)


def best_of(
    cosines: np.ndarray,
    ids: np.ndarray,
    own_mean: np.ndarray,
    near_mean: Callable[[np.ndarray], np.ndarray],
    kind: str,
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
        margins = _margins(near, other, own_mean[own], near_mean(own), kind)
        place = margins.argmax(axis=1)[:, None]
        best[part] = np.take_along_axis(other, place, 1)[:, 0]
        scores[part] = np.take_along_axis(margins, place, 1)[:, 0]
        nearness[part] = np.take_along_axis(near, place, 1)[:, 0]
    return Candidates(scores, rows, best, nearness)


def _margins(
    cosines: np.ndarray, ids: np.ndarray, own_mean: np.ndarray, near_mean: np.ndarray, kind: str
) -> np.ndarray:
    """Margins [n, k] of some rows' neighbours; -inf where a row has fewer than k."""
    scores = margin(cosines, own_mean[:, None], near_mean, kind)
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
