"""How sure a threshold is: bootstrap intervals, and a half that the tuning has not seen."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mexma_cli.errors import MexmaError
from mexma_cli.mining.threshold import (
    Cuts,
    Threshold,
    best_threshold,
    chosen_place,
    measured_threshold,
    most_precise_place,
)
from mexma_cli.text.amounts import brief

RESAMPLES = 1000
SEED = 0
TRIED_CUTS = 4096
TAILS = (0.025, 0.975)


@dataclass(frozen=True)
class Labelled:
    """Scored pairs with the truth about them.

    `scores` float [n], finite; `is_gold` bool [n]; `source` and `target` uint64 [n], a hash of each sentence
    (equal ones are the same sentence); `gold_source` and `gold_target` uint64 [g], of all gold pairs, those
    that are not among the candidates too.
    """

    scores: np.ndarray
    is_gold: np.ndarray
    source: np.ndarray
    target: np.ndarray
    gold_source: np.ndarray
    gold_target: np.ndarray

    @property
    def gold(self) -> int:
        """Gold pairs in all."""
        return len(self.gold_source)


@dataclass(frozen=True)
class Intervals:
    """95 % intervals as (low, high): of the threshold, and of the printed threshold's result."""

    threshold: tuple[float, float]
    precision: tuple[float, float]
    recall: tuple[float, float]
    f1: tuple[float, float]

    __repr__ = brief


@dataclass(frozen=True)
class HeldOut:
    """The result of a threshold, tuned on one half of the gold pairs, on the `gold` pairs of the other."""

    result: Threshold
    gold: int

    __repr__ = brief


def bootstrap(
    pairs: Labelled, chosen: Threshold, precision: float | None = None, resamples: int = RESAMPLES
) -> Intervals:
    """Percentile intervals from resampled source sentences.

    Source sentences of candidates and of gold pairs are drawn with replacement, each with all its candidates
    and all its gold pairs, found or missed. Pairs cannot be drawn one by one: those of one sentence are not
    independent, and a missed gold pair is not among the candidates. (Where a sentence has one candidate at
    most, as with retrieval `max`, drawing sentences is drawing candidates and missed gold pairs.)

    The interval of the threshold comes from thresholds chosen anew in each resample. The intervals of
    precision, recall and F1 are of the threshold that was chosen, on other text of the same kind. The seed is
    fixed. Of more than 4,096 cuts, a resample tries 4,096, evenly spread over the ranks.

    Args:
        chosen: the threshold from all pairs.
        precision: as `chosen` was chosen by, see `threshold.best_threshold`. In a resample where no cut has
            it, the most precise cut is taken.
    """
    curve = Cuts(pairs.scores, pairs.is_gold, pairs.gold)
    # Units are numbered by their best candidate's rank, so that loops in rank order read nearby memory.
    ranked = np.concatenate([pairs.source[curve.order], np.sort(pairs.gold_source)])
    names, first, unit = np.unique(ranked, return_index=True, return_inverse=True)
    units, number = len(names), np.empty(len(names), dtype=np.intp)
    number[np.argsort(first)] = np.arange(units)
    of_candidate, of_gold = np.split(number[unit], [len(pairs.source)])
    is_gold = pairs.is_gold[curve.order]
    gold_of_unit = np.bincount(of_gold, minlength=units)
    own = int(np.searchsorted(curve.count, chosen.count))
    cuts = np.union1d(np.linspace(0, len(curve.ends) - 1, TRIED_CUTS).astype(np.intp), own)
    starts, printed = np.append(0, curve.count[cuts[:-1]]), int(np.searchsorted(cuts, own))
    rng = np.random.default_rng(SEED)
    figures = np.full((resamples, 4), np.nan)
    for row in figures:
        drawn = np.bincount(rng.integers(0, units, units, dtype=np.uint32), minlength=units)
        times = drawn[of_candidate]
        count = np.cumsum(np.add.reduceat(times, starts))
        correct = np.cumsum(np.add.reduceat(times * is_gold, starts))
        total = int(drawn @ gold_of_unit)
        place = chosen_place(count, correct, total, precision)
        if place is None:
            place = most_precise_place(count, correct)
        row[0] = curve.threshold(int(cuts[place]))
        kept, right = int(count[printed]), int(correct[printed])
        row[1] = right / kept if kept else np.nan
        row[2] = right / total if total else np.nan
        row[3] = 2 * right / (kept + total) if kept + total else np.nan
    low, high = np.nanquantile(figures, TAILS, axis=0).tolist()
    return Intervals(*zip(low, high, strict=True))


def held_out(pairs: Labelled, precision: float | None = None) -> HeldOut | None:
    """Tune on one of the two `halves`, and measure on the other.

    Returns:
        None where there are no two halves, or the first cannot be tuned on.
    """
    split = halves(pairs)
    if split is None:
        return None
    tuning, gold = split
    total, rest = int(gold.sum()), int((~gold).sum())
    if not pairs.is_gold[tuning].any():
        return None
    try:
        tuned = best_threshold(pairs.scores[tuning], pairs.is_gold[tuning], total, precision)
    except MexmaError:  # the precision is out of reach there
        return None
    return HeldOut(
        measured_threshold(pairs.scores[~tuning], pairs.is_gold[~tuning], rest, tuned.threshold), rest
    )


def halves(pairs: Labelled) -> tuple[np.ndarray, np.ndarray] | None:
    """Split candidates and gold pairs in two: bool [n] and [g], True in the first half.

    No sentence, source or target, is in both halves: the groups are the connected components of the graph
    whose nodes are sentences and whose edges are candidates and gold pairs. In the order of their sentences'
    hashes, so that the halves depend on the text only, groups go to the first half until it has half of the
    gold pairs.

    Returns:
        None if one half would have no gold pairs: nearly all are in one group, as with many candidates a
        sentence, or there is one gold pair.
    """
    group, key = _groups(pairs)
    of_candidate, of_gold = np.split(group, [len(pairs.source)])
    order = np.argsort(key, kind="stable")
    gold = np.bincount(of_gold, minlength=len(key))[order]
    first = np.empty(len(key), dtype=bool)
    first[order] = np.cumsum(gold) - gold < pairs.gold / 2
    if first[of_gold].all():
        return None
    return first[of_candidate], first[of_gold]


def _groups(pairs: Labelled) -> tuple[np.ndarray, np.ndarray]:
    """The connected component of every candidate and gold pair, int64 [n + g], and the components' hashes,
    uint64."""
    names, source = np.unique(np.concatenate([pairs.source, pairs.gold_source]), return_inverse=True)
    others, target = np.unique(np.concatenate([pairs.target, pairs.gold_target]), return_inverse=True)
    target = target + len(names)
    label = np.arange(len(names) + len(others))
    while True:  # hook the larger label of each pair to the smaller, then shorten the chains
        low = np.minimum(label[source], label[target])
        before = label.copy()
        np.minimum.at(label, before[source], low)
        np.minimum.at(label, before[target], low)
        while (label[label] != label).any():
            label = label[label]
        if (label == before).all():
            break
    kept, group = np.unique(label[source], return_inverse=True)
    key = np.zeros(len(kept), dtype=np.uint64)
    np.add.at(key, np.searchsorted(kept, label[: len(names)]), names)  # the sum may wrap
    return group, key
