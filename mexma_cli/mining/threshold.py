"""Where to cut a ranked list of pairs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mexma_cli.errors import MexmaError
from mexma_cli.text.amounts import brief

_DIGITS = 6  # decimals of a threshold, as LASER hands it on, unless scores lie closer than that
_HARDLY = 0.1
"""Below this precision, the best that there is, no threshold is worth naming."""


@dataclass(frozen=True)
class Threshold:
    """A cut and its result. Pairs with a score greater than `threshold` are kept: `count` of them,
    `correct` in the gold list. precision, recall and f1 are fractions; all are 0 where nothing is kept."""

    threshold: float
    precision: float
    recall: float
    f1: float
    count: int
    correct: int

    __repr__ = brief


def best_threshold(
    scores: np.ndarray, is_gold: np.ndarray, gold_total: int, precision: float | None = None
) -> Threshold:
    """The cut with the best F1, or the one that keeps the most pairs with at least this precision.

    Recall is counted over all gold pairs. Equal scores are kept or dropped together, and the threshold lies
    half-way between the last score kept and the next lower one; below the lowest score of all it is 1e-6
    lower. Of equal F1 the higher cut is taken. LASER's bucc.py does the same except that it cuts
    through ties and fails when the optimum is the last candidate. Precision need not fall with the score: a
    cut below a stretch of lower precision counts too.

    Args:
        scores: float [n], finite, in any order.
        is_gold: bool [n].
        gold_total: gold pairs in all, found among the candidates or not; at least 1.

    Raises:
        MexmaError: no cut has that precision; the message has the highest there is.
    """
    curve = Cuts(scores, is_gold, gold_total)
    place = chosen_place(curve.count, curve.correct, gold_total, precision)
    if place is None:
        assert precision is not None
        best = curve.cut(most_precise_place(curve.count, curve.correct))
        pairs = f"({best.correct} of {best.count} pairs)"
        raise unreachable(precision, best.precision, f"above {best.threshold} {pairs}")
    return curve.cut(place)


def measured_threshold(
    scores: np.ndarray, is_gold: np.ndarray, gold_total: int, threshold: float
) -> Threshold:
    """The result of a given threshold; arguments as for `best_threshold`, but there may be no scores."""
    kept = np.asarray(scores, dtype=np.float64) > threshold
    return _measured(threshold, int(kept.sum()), int((kept & is_gold).sum()), gold_total)


class Cuts:
    """All cuts that do not go through equal scores, highest first.

    `order` int64 [n] ranks the candidates, `ends` int64 [c] are the ranks that the cuts come after; `count`
    and `correct` int64 [c] are the pairs and the correct pairs that they keep.
    """

    def __init__(self, scores: np.ndarray, is_gold: np.ndarray, gold_total: int) -> None:
        if gold_total < 1 or not len(scores):
            raise ValueError("neither the candidates nor the gold pairs may be none")
        self.gold_total = gold_total
        self.order = np.argsort(-scores, kind="stable")
        self._ranked = np.asarray(scores, dtype=np.float64)[self.order]
        self.ends = np.flatnonzero(np.append(self._ranked[1:] != self._ranked[:-1], True))
        self.count, self.correct = self.ends + 1, np.cumsum(is_gold[self.order])[self.ends]

    def cut(self, place: int) -> Threshold:
        """A cut's threshold and its result."""
        count, correct = int(self.count[place]), int(self.correct[place])
        return _measured(self.threshold(place), count, correct, self.gold_total)

    def threshold(self, place: int) -> float:
        """The number between the scores on both sides of a cut."""
        low = self._ranked[self.ends[place + 1]] if place + 1 < len(self.ends) else None
        return between(self._ranked[self.ends[place]], low)


def chosen_place(
    count: np.ndarray, correct: np.ndarray, gold_total: float, precision: float | None
) -> int | None:
    """The cut to choose: the first of best F1, 2PR / (P + R), or the last that has at least this precision.

    Args:
        count, correct: [c], the pairs that each cut keeps, and the correct ones among them.

    Returns:
        None: no cut that keeps a correct pair has that precision.
    """
    if precision is None:
        both = count + gold_total
        return int((correct / np.where(both == 0, 1, both)).argmax())
    enough = (correct > 0) & (correct / np.maximum(count, 1) >= precision)
    return int(len(enough) - 1 - enough[::-1].argmax()) if enough.any() else None


def most_precise_place(count: np.ndarray, correct: np.ndarray) -> int:
    """The last of the cuts of highest precision."""
    share = correct / np.maximum(count, 1)
    return int(len(share) - 1 - share[::-1].argmax())


def unreachable(precision: float, highest: float, where: str, about: str = "") -> MexmaError:
    """The refusal of a precision that no cut has; the highest one is there."""
    below = min(highest, precision - 1e-4)  # rounded, it would be the one that is wanted
    return MexmaError(
        f"no threshold has a precision of {100 * precision:.2f} %: the highest is {about}"
        f"{100 * below:.2f} %, {where}",
        f"ask for less, such as a precision of {np.floor(100 * highest) / 100:g}"
        if highest >= _HARDLY
        else "hardly any of these pairs are translations, whatever the threshold",
    )


def _measured(threshold: float, count: int, correct: int, gold_total: int) -> Threshold:
    return Threshold(
        threshold=threshold,
        precision=correct / count if count else 0.0,
        recall=correct / gold_total,
        f1=2 * correct / (count + gold_total),  # = 2PR / (P + R)
        count=count,
        correct=correct,
    )


def between(high: float, low: float | None) -> float:
    """The middle of low and high, rounded as far as it still separates them: low <= result < high."""
    if low is None:
        low = min(high - 2 * 10.0**-_DIGITS, float(np.nextafter(high, -np.inf)))  # which a large one absorbs
    middle = float((low + high) / 2)
    for digits in range(_DIGITS, 17):
        if low < (rounded := round(middle, digits)) < high:
            return rounded + 0.0  # no -0.0
    return middle if middle < high else float(low)
