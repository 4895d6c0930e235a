"""From neighbours to pairs: which of the candidates are taken."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mexma_cli.mining.margin import margin, means
from mexma_cli.mining.neighbours import Neighbours

RETRIEVALS = ("max", "intersect", "forward", "backward")


@dataclass(frozen=True)
class Candidates:
    """Pairs, best first: `scores` float32 [n], `source` and `target` int64 [n], sorted by (score descending,
    source row, target row)."""

    scores: np.ndarray
    source: np.ndarray
    target: np.ndarray

    def __len__(self) -> int:
        return len(self.scores)

    def above(self, threshold: float) -> Candidates:
        """Those whose score is greater than the threshold."""
        chosen = self.scores.astype(np.float64) > threshold
        return Candidates(self.scores[chosen], self.source[chosen], self.target[chosen])


def match(
    neighbours: Neighbours, kind: str = "ratio", retrieval: str = "max", threshold: float | None = None
) -> Candidates:
    """Take pairs from neighbours as LASER's mine_bitexts.py does.

    Args:
        neighbours: both directions, as `knn` gives them.
        kind: the margin that scores a pair.
        retrieval: forward: every source row with the best of its neighbours by margin; backward: every target
            row; intersect: what both of these chose; max: both together, best first, each row in one pair at
            most. A better pair claims its rows even if the threshold then drops it.
        threshold: keep scores greater than this. None: max keeps scores above 0, the others everything.
    """
    if retrieval not in RETRIEVALS:
        raise ValueError(f"retrieval {retrieval!r} is none of {', '.join(RETRIEVALS)}")
    forward, backward = best_of_each(neighbours, kind)
    if retrieval == "forward":
        found = forward
    elif retrieval == "backward":
        found = backward
    elif retrieval == "intersect":
        found = _mutual(forward, backward, len(neighbours.backward_ids))
    else:
        found = _one_to_one(forward, backward)
    if threshold is None and retrieval == "max":
        threshold = 0.0
    found = _sorted(found)
    return found if threshold is None else found.above(threshold)


def best_of_each(neighbours: Neighbours, kind: str) -> tuple[Candidates, Candidates]:
    """For every row of x, and for every row of y, its best neighbour by margin, in row order.

    Of equal margins the nearer neighbour is taken, then the lower row. Rows that were left out are absent.
    """
    forward_mean, backward_mean = means(neighbours)
    rows, best, scores = _best(
        neighbours.forward_scores, neighbours.forward_ids, forward_mean, backward_mean, kind
    )
    forward = Candidates(scores, rows, best)
    rows, best, scores = _best(
        neighbours.backward_scores, neighbours.backward_ids, backward_mean, forward_mean, kind
    )
    return forward, Candidates(scores, best, rows)


def _best(
    cosines: np.ndarray, ids: np.ndarray, own_mean: np.ndarray, other_mean: np.ndarray, kind: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(rows, their best neighbour, its margin); float addition commutes, so both directions score alike."""
    if ids.shape[1] == 0:
        return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float32)
    rows = np.flatnonzero(ids[:, 0] >= 0)
    cosines, ids = cosines[rows], ids[rows]
    scores = margin(cosines, own_mean[rows, None], other_mean[ids], kind)
    place = scores.argmax(axis=1)[:, None]
    return rows, np.take_along_axis(ids, place, 1)[:, 0], np.take_along_axis(scores, place, 1)[:, 0]


def _mutual(forward: Candidates, backward: Candidates, targets: int) -> Candidates:
    chosen_by = np.full(targets, -1, dtype=np.int64)
    chosen_by[backward.target] = backward.source
    mutual = chosen_by[forward.target] == forward.source
    return Candidates(forward.scores[mutual], forward.source[mutual], forward.target[mutual])


def _one_to_one(forward: Candidates, backward: Candidates) -> Candidates:
    """Greedy: best first, a pair is taken if neither of its rows is."""
    both = _sorted(
        Candidates(
            np.concatenate([forward.scores, backward.scores]),
            np.concatenate([forward.source, backward.source]),
            np.concatenate([forward.target, backward.target]),
        )
    )
    if not len(both):
        return both
    source_taken = bytearray(int(both.source.max()) + 1)
    target_taken = bytearray(int(both.target.max()) + 1)
    taken = []
    for place, (source, target) in enumerate(zip(both.source.tolist(), both.target.tolist(), strict=True)):
        if not (source_taken[source] or target_taken[target]):
            source_taken[source] = target_taken[target] = 1
            taken.append(place)
    return Candidates(both.scores[taken], both.source[taken], both.target[taken])


def _sorted(pairs: Candidates) -> Candidates:
    order = np.lexsort((pairs.target, pairs.source, -pairs.scores))
    return Candidates(pairs.scores[order], pairs.source[order], pairs.target[order])
