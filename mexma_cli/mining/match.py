"""From neighbours to pairs: which of the candidates are taken."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from mexma_cli.knn.neighbours import Neighbours
from mexma_cli.mining.margin import margin, means

RETRIEVALS = ("max", "intersect", "forward", "backward", "all")

Means = tuple[np.ndarray, np.ndarray]

_ENTRIES = 1 << 20  # neighbours looked at together: about 50 MB of temporary arrays
_ROUNDS = 64  # in which all undecided pairs are looked at together; later pairs are decided one by one


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

    def mapped(self, rows: tuple[np.ndarray, np.ndarray]) -> Candidates:
        """The same pairs, of other rows that stand for theirs: int64 [N] and [M]."""
        return replace(self, source=rows[0][self.source], target=rows[1][self.target])

    def above(self, threshold: float) -> Candidates:
        """Those whose score is greater than the threshold."""
        found = self.take(self.scores.astype(np.float64) > threshold)
        return replace(found, below=self.below + len(self) - len(found))


@dataclass(frozen=True)
class Details:
    """What else is known of n candidates, in their order.

    `source_rank` int64 [n] is the target's place among the neighbours of the source (1 = nearest, 0 = not
    among the k) and `target_rank` the other way round; `source_mean` and `target_mean` float32 [n] are the
    mean cosines of both neighbourhoods.
    """

    source_rank: np.ndarray
    target_rank: np.ndarray
    source_mean: np.ndarray
    target_mean: np.ndarray


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
    if retrieval == "max":
        threshold = 0.0 if threshold is None else threshold
        found = _one_to_one(sides, len(neighbours.backward_ids))
    elif retrieval == "intersect":
        found = best_first(sides[0].take(_mutual(sides[0], sides[1], len(neighbours.backward_ids))))
    else:
        found = best_first(sides[retrieval == "backward"])
    return found if threshold is None else found.above(threshold)


def best_of_each(
    neighbours: Neighbours, kind: str, background: Means | None = None
) -> tuple[Candidates, Candidates]:
    """For every row of x, and for every row of y, its best neighbour by margin, in row order.

    Of equal margins the nearer neighbour is taken, then the lower row. Rows that were left out are absent.
    """
    forward_mean, backward_mean = background or means(neighbours)
    scores, rows, best, cosines = _best(
        neighbours.forward_scores, neighbours.forward_ids, forward_mean, backward_mean, kind
    )
    forward = Candidates(scores, rows, best, cosines)
    scores, rows, best, cosines = _best(
        neighbours.backward_scores, neighbours.backward_ids, backward_mean, forward_mean, kind
    )
    return forward, Candidates(scores, best, rows, cosines)


def details(neighbours: Neighbours, candidates: Candidates) -> Details:
    """Look up ranks and neighbourhoods of candidates in the neighbours that they came from."""
    count = len(candidates)
    source_rank, target_rank = np.zeros(count, np.int64), np.zeros(count, np.int64)
    source_mean, target_mean = np.zeros(count, np.float32), np.zeros(count, np.float32)
    width = neighbours.forward_ids.shape[1] + neighbours.backward_ids.shape[1]
    for part in _blocks(count, width):
        source, target = candidates.source[part], candidates.target[part]
        own = Neighbours(
            neighbours.forward_scores[source],
            neighbours.forward_ids[source],
            neighbours.backward_scores[target],
            neighbours.backward_ids[target],
        )
        source_mean[part], target_mean[part] = means(own)
        source_rank[part] = _rank(own.forward_ids, target)
        target_rank[part] = _rank(own.backward_ids, source)
    return Details(source_rank, target_rank, source_mean, target_mean)


def _blocks(rows: int, width: int) -> Iterator[slice]:
    """Slices of rows of `width` entries that make about `_ENTRIES` together."""
    step = max(1, _ENTRIES // max(1, width))
    for start in range(0, rows, step):
        yield slice(start, min(start + step, rows))


def _best(
    cosines: np.ndarray, ids: np.ndarray, own_mean: np.ndarray, other_mean: np.ndarray, kind: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(margin of the best neighbour, row, neighbour, cosine) for every row that has one.

    Float addition commutes, so both directions score alike.
    """
    rows = np.flatnonzero(ids[:, 0] >= 0) if ids.shape[1] else np.empty(0, np.int64)
    best, scores = np.empty(len(rows), np.int64), np.empty(len(rows), np.float32)
    nearness = np.empty(len(rows), np.float32)
    for part in _blocks(len(rows), ids.shape[1]):
        own = rows[part]
        near, other = cosines[own], ids[own]
        margins = _margins(near, other, own_mean[own], other_mean, kind)
        place = margins.argmax(axis=1)[:, None]
        best[part] = np.take_along_axis(other, place, 1)[:, 0]
        scores[part] = np.take_along_axis(margins, place, 1)[:, 0]
        nearness[part] = np.take_along_axis(near, place, 1)[:, 0]
    return scores, rows, best, nearness


def _margins(
    cosines: np.ndarray, ids: np.ndarray, own_mean: np.ndarray, other_mean: np.ndarray, kind: str
) -> np.ndarray:
    """Margins [n, k] of some rows' neighbours; -inf where a row has fewer than k."""
    scores = margin(cosines, own_mean[:, None], other_mean[ids], kind)
    absent = ids < 0
    if absent.any():
        scores = np.where(absent, np.float32(-np.inf), scores)
    return scores


def _mutual(forward: Candidates, backward: Candidates, targets: int) -> np.ndarray:
    """bool: which of the forward pairs are backward pairs too."""
    chosen_by = np.full(targets, -1, dtype=np.int64)
    chosen_by[backward.target] = backward.source
    return chosen_by[forward.target] == forward.source


def _one_to_one(sides: list[Candidates], targets: int) -> Candidates:
    """Greedy: best first, a pair is taken if neither of its rows is. Sorted.

    A pair that is the best of both its rows is taken whatever becomes of other pairs. So in each round all
    such pairs are taken together, and pairs with a taken row are dropped.

    Args:
        sides: forward and backward; emptied, so that they need no memory while their union is worked on.
    """
    both = _union(sides, targets)
    order = _order(both)
    sources = int(both.source.max(initial=-1)) + 1
    source_free, target_free = np.ones(sources, dtype=bool), np.ones(targets, dtype=bool)
    source_first, target_first = np.empty(sources, order.dtype), np.empty(targets, order.dtype)
    taken = np.zeros(len(both), dtype=bool)
    left = np.arange(len(both), dtype=order.dtype)  # places in `order`
    for _ in range(_ROUNDS):
        for part in reversed(list(_blocks(len(left), 1))):
            places = left[part][::-1]  # of equal indices the last write stays: the best pair
            source_first[both.source[order[places]]] = places
            target_first[both.target[order[places]]] = places
        for part in _blocks(len(left), 1):
            places = left[part]
            pair = order[places]
            source, target = both.source[pair], both.target[pair]
            best = (source_first[source] == places) & (target_first[target] == places)
            taken[places[best]] = True
            source_free[source[best]] = target_free[target[best]] = False
        kept = [np.empty(0, order.dtype)]
        for part in _blocks(len(left), 1):
            pair = order[left[part]]
            kept.append(left[part][source_free[both.source[pair]] & target_free[both.target[pair]]])
        left = np.concatenate(kept)
        if not len(left):
            break
    for place in left.tolist():
        pair = order[place]
        if source_free[both.source[pair]] and target_free[both.target[pair]]:
            taken[place] = True
            source_free[both.source[pair]] = target_free[both.target[pair]] = False
    return both.take(order[taken])


def _union(sides: list[Candidates], targets: int) -> Candidates:
    """Forward and backward pairs, each once."""
    new = np.ones(targets, dtype=bool)
    new[sides[0].target[_mutual(sides[0], sides[1], targets)]] = False
    new = new[sides[1].target]
    columns = [[side.scores, side.source, side.target, side.cosines] for side in sides]
    sides.clear()
    joined = []
    while columns[0]:
        joined.append(np.concatenate([columns[0].pop(), columns[1].pop()[new]]))
    cosines, target, source, scores = joined
    return Candidates(scores, source, target, cosines)


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
    scores = _margins(cosines, ids, own_mean, other_mean, kind)
    return scores[row, place], row, ids[row, place], cosines[row, place]


def _rank(ids: np.ndarray, wanted: np.ndarray) -> np.ndarray:
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
