"""From neighbours to pairs: which of the candidates are taken."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np

from mexma_cli.knn.neighbours import Neighbours
from mexma_cli.mining.margin import margin, means

RETRIEVALS = ("max", "intersect", "forward", "backward", "all")

Means = tuple[np.ndarray, np.ndarray]

_ENTRIES = 1 << 20  # neighbours looked at together: about 50 MB of temporary arrays
_COMPILED = 1 << 17  # pairs for which it pays to wait for Numba
_COLUMNS = ("scores", "source", "target", "cosines")


@dataclass(frozen=True)
class Candidates:
    """Pairs: `scores` float32 [n], `source` and `target` int64 [n], and their `cosines` float32 [n].

    From `match` they come best first, sorted by (score descending, source row, target row); `below` is the
    number of pairs that its threshold dropped.
    """

    scores: np.ndarray
    source: np.ndarray
    target: np.ndarray
    cosines: np.ndarray
    below: int = field(default=0, kw_only=True)

    def __len__(self) -> int:
        return len(self.scores)

    def take(self, chosen: np.ndarray | slice) -> Candidates:
        """Those at some places (int), or where a mask (bool [n]) says so."""
        return Candidates(*(getattr(self, name)[chosen] for name in _COLUMNS), below=self.below)

    def turned(self) -> Candidates:
        """The same pairs with source and target exchanged."""
        return replace(self, source=self.target, target=self.source)

    def mapped(self, rows: tuple[np.ndarray, np.ndarray]) -> Candidates:
        """The same pairs, of other rows that stand for theirs: int64 [N] and [M]."""
        return replace(self, source=rows[0][self.source], target=rows[1][self.target])

    def cut(self, retrieval: str, threshold: float | None) -> Candidates:
        """Those, sorted best first, that the threshold keeps, see `match`."""
        if threshold is None and retrieval != "max":
            return self
        above = self.count_above(threshold or 0.0)
        return replace(self.take(slice(above)), below=self.below + len(self) - above)

    def count_above(self, threshold: float) -> int:
        """How many have a score greater than the threshold; they are sorted best first."""
        return bisect_left(range(len(self)), True, key=lambda place: float(self.scores[place]) <= threshold)

    def above(self, threshold: float) -> Candidates:
        """Those whose score is greater than the threshold."""
        found = self.take(self.scores.astype(np.float64) > threshold)
        return replace(found, below=self.below + len(self) - len(found))


def match(
    neighbours: Neighbours,
    kind: str = "ratio",
    retrieval: str = "max",
    threshold: float | None = None,
    *,
    background: Means | None = None,
) -> Candidates:
    """Take pairs from neighbours as LASER's mine_bitexts.py does.

    Args:
        neighbours: both directions, as `knn` gives them. They may be memory-mapped: they are read in blocks.
        kind: the margin that scores a pair.
        retrieval: forward: every source row with the best of its neighbours by margin; backward: every target
            row; intersect: the pairs that both chose; max: both together, best first, each row in one pair at
            most. A better pair claims its rows even if the threshold then drops it. all: every neighbour of
            every row, each pair once.
        threshold: keep scores greater than this. None: max keeps scores above 0, the others everything.
        background: float32 [N] and [M], the mean cosines of all rows' neighbourhoods, where they are not
            those of `neighbours`.
    """
    if retrieval not in RETRIEVALS:
        raise ValueError(f"retrieval {retrieval!r} is none of {', '.join(RETRIEVALS)}")
    if retrieval == "all":
        return best_first(_all(neighbours, kind, background, threshold))
    sides = list(best_of_each(neighbours, kind, background))
    if retrieval in ("forward", "backward"):
        return best_first(sides[retrieval == "backward"]).cut(retrieval, threshold)
    both = _concatenated(sides)
    order = _order(both)
    matching = Matching(retrieval, (len(neighbours.forward_ids), len(neighbours.backward_ids)))
    taken = np.zeros(len(order), dtype=bool)
    for part in _blocks(len(order), 1):
        taken[part] = matching.taken(both.take(order[part]))
    return both.take(order[taken]).cut(retrieval, threshold)


class Matching:
    """Which pairs of both directions are taken, where they come best first, in blocks.

    A pair that is the best of both its rows comes twice, with the same score, so one after the other. Takes
    a bit for each row.

    Args:
        retrieval: max: a pair is taken if neither of its rows is taken before; intersect: if it comes twice.
        rows: Of source and target.
    """

    def __init__(self, retrieval: str, rows: tuple[int, int]) -> None:
        self._mutual = retrieval == "intersect"
        self._taken = [np.zeros(0 if self._mutual else -(-count // 8), np.uint8) for count in rows]
        self._last = -1, -1

    def taken(self, pairs: Candidates) -> np.ndarray:
        """bool [n], for the n pairs that come next."""
        if not self._mutual:
            claim = _claim if len(pairs) < _COMPILED else _claim_compiled()
            return claim(pairs.source, pairs.target, *self._taken)
        source, target = np.append(self._last[0], pairs.source), np.append(self._last[1], pairs.target)
        self._last = source[-1], target[-1]
        return (source[1:] == source[:-1]) & (target[1:] == target[:-1])


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

    return compiled()(_claim)  # type: ignore[no-any-return]


def best_of_each(
    neighbours: Neighbours, kind: str, background: Means | None = None
) -> tuple[Candidates, Candidates]:
    """For every row of x, and for every row of y, its best neighbour by margin, in row order.

    Of equal margins the nearer neighbour is taken, then the lower row. Rows that were left out are absent.
    """
    forward_mean, backward_mean = background or means(neighbours)
    near = neighbours.forward_ids, neighbours.backward_ids
    return (
        best_of(
            neighbours.forward_scores, near[0], forward_mean, lambda rows: backward_mean[near[0][rows]], kind
        ),
        best_of(
            neighbours.backward_scores, near[1], backward_mean, lambda rows: forward_mean[near[1][rows]], kind
        ).turned(),
    )


def _blocks(rows: int, width: int) -> Iterator[slice]:
    """Slices of rows of `width` entries that make about `_ENTRIES` together."""
    step = max(1, _ENTRIES // max(1, width))
    for start in range(0, rows, step):
        yield slice(start, min(start + step, rows))


def best_of(
    cosines: np.ndarray,
    ids: np.ndarray,
    own_mean: np.ndarray,
    near_mean: Callable[[np.ndarray], np.ndarray],
    kind: str,
) -> Candidates:
    """Every row, as source, with the best of its neighbours by margin, in row order; see `best_of_each`.

    Float addition commutes, so both directions score alike.

    Args:
        cosines, ids: [n, k], of the rows' neighbours.
        own_mean: float32 [n], of the rows' neighbourhoods.
        near_mean: From rows, int64 [m], to those of their neighbours, [m, k].
    """
    rows = np.flatnonzero(ids[:, 0] >= 0) if ids.shape[1] else np.empty(0, np.int64)
    best, scores = np.empty(len(rows), np.int64), np.empty(len(rows), np.float32)
    nearness = np.empty(len(rows), np.float32)
    for part in _blocks(len(rows), ids.shape[1]):
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


def _concatenated(sides: list[Candidates]) -> Candidates:
    """Both sides' pairs; `sides` is emptied, so that it needs no memory while these are worked on."""
    columns = [[getattr(side, name) for name in _COLUMNS] for side in sides]
    sides.clear()
    joined = []
    while columns[0]:
        joined.append(np.concatenate([columns[0].pop(), columns[1].pop()]))
    return Candidates(*reversed(joined))


def _all(neighbours: Neighbours, kind: str, background: Means | None, threshold: float | None) -> Candidates:
    """Every neighbour of every row, each pair once; the threshold is applied block by block."""
    own_mean, other_mean = background or means(neighbours)
    cosines, ids = neighbours.forward_scores, neighbours.forward_ids
    parts: list[Candidates] = []
    below = 0

    def add(pairs: Candidates) -> int:
        parts.append(pairs if threshold is None else pairs.above(threshold))
        return len(pairs) - len(parts[-1])

    for part in _blocks(len(ids), ids.shape[1]):
        scores, rows, others, near = _found(cosines[part], ids[part], own_mean[part], other_mean, kind)
        below += add(Candidates(scores, rows + part.start, others, near))
    cosines, back = neighbours.backward_scores, neighbours.backward_ids
    for part in _blocks(len(back), back.shape[1] * max(1, ids.shape[1])):
        scores, rows, others, near = _found(cosines[part], back[part], other_mean[part], own_mean, kind)
        pairs = Candidates(scores, others, rows + part.start, near)
        below += add(pairs.take((ids[pairs.source] != pairs.target[:, None]).all(axis=1)))
    return _joined(parts, below)


def _found(
    cosines: np.ndarray, ids: np.ndarray, own_mean: np.ndarray, other_mean: np.ndarray, kind: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(margin, row, neighbour, cosine) of all neighbours of some rows."""
    row, place = np.nonzero(ids >= 0)
    scores = _margins(cosines, ids, own_mean, other_mean[ids], kind)
    return scores[row, place], row, ids[row, place], cosines[row, place]


def rank_of(ids: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Place, from 1, of `wanted` [n] in the rows of `ids` [n, k]; 0 where it is not there."""
    if not ids.shape[1]:
        return np.zeros(len(ids), np.int64)
    hits = ids == wanted[:, None]
    return np.where(hits.any(axis=1), hits.argmax(axis=1) + 1, 0)


def _joined(parts: list[Candidates], below: int) -> Candidates:
    if len(parts) == 1:
        return replace(parts[0], below=below)
    none = Candidates(*(np.empty(0, dtype) for dtype in (np.float32, np.int64, np.int64, np.float32)))
    columns = (np.concatenate([getattr(part, name) for part in [none, *parts]]) for name in _COLUMNS)
    return Candidates(*columns, below=below)


def best_first(pairs: Candidates) -> Candidates:
    """The pairs sorted by (score descending, source row, target row)."""
    return pairs.take(_order(pairs))


def _order(pairs: Candidates) -> np.ndarray:
    """The places of pairs, best first, in as few bytes as they need."""
    order = np.lexsort((pairs.target, pairs.source, -pairs.scores))
    return order.astype(np.uint32) if len(order) < 1 << 32 else order
