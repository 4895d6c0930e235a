"""Where to cut a ranked list of pairs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

_DIGITS = 6  # decimals of a threshold, as LASER hands it on, unless scores lie closer than that


@dataclass(frozen=True)
class Threshold:
    """A cut and what it gives. Pairs with a score greater than `threshold` are kept: `count` of them,
    `correct` in the gold list. precision, recall and f1 are fractions."""

    threshold: float
    precision: float
    recall: float
    f1: float
    count: int
    correct: int


def best_f1(scores: np.ndarray, is_gold: np.ndarray, gold_total: int) -> Threshold:
    """The cut with the best F1, recall being counted over all gold pairs.

    Equal scores are kept or dropped together, and the threshold lies half-way between the last score kept
    and the next lower one (below the last score of all there is no next: 1e-6 lower). Of equal F1 the
    higher cut is taken. LASER's bucc.py does the same except that it cuts through ties and fails when the
    optimum is the last candidate.

    Args:
        scores: float [n], finite, in any order.
        is_gold: bool [n].
        gold_total: gold pairs in all, found among the candidates or not; at least 1.
    """
    if gold_total < 1 or not len(scores):
        raise ValueError("neither the candidates nor the gold pairs may be none")
    order = np.argsort(-scores, kind="stable")
    ranked = np.asarray(scores, dtype=np.float64)[order]
    correct = np.cumsum(is_gold[order])
    last_of_tie = np.flatnonzero(np.append(ranked[1:] != ranked[:-1], True))
    count, correct = last_of_tie + 1, correct[last_of_tie]
    f1 = 2 * correct / (count + gold_total)  # = 2PR / (P + R)
    best = int(f1.argmax())
    low = ranked[last_of_tie[best + 1]] if best + 1 < len(count) else None
    return Threshold(
        threshold=_between(ranked[last_of_tie[best]], low),
        precision=float(correct[best] / count[best]),
        recall=float(correct[best] / gold_total),
        f1=float(f1[best]),
        count=int(count[best]),
        correct=int(correct[best]),
    )


def _between(high: float, low: float | None) -> float:
    """The middle of low and high, rounded as far as it still separates them: low <= result < high."""
    if low is None:
        low = high - 2 * 10.0**-_DIGITS
    middle = float((low + high) / 2)
    for digits in range(_DIGITS, 17):
        if low < (rounded := round(middle, digits)) < high:
            return rounded
    return middle if middle < high else float(low)
