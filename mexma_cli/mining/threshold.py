"""Where to cut a ranked list of pairs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mexma_cli.errors import MexmaError

_DIGITS = 6  # decimals of a threshold, as LASER hands it on, unless scores lie closer than that


@dataclass(frozen=True)
class Threshold:
    """A cut and what it gives. Pairs with a score greater than `threshold` are kept: `count` of them,
    `correct` in the gold list. precision, recall and f1 are fractions; all are 0 where nothing is kept."""

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
    curve = Curve(scores, is_gold, gold_total)
    return curve.cut(curve.best())


def loosest(scores: np.ndarray, is_gold: np.ndarray, gold_total: int, precision: float) -> Threshold:
    """The cut that keeps the most pairs with at least this precision; else as `best_f1`.

    Precision need not fall with the score: a cut below a stretch of lower precision counts too.

    Raises:
        MexmaError: no cut has that precision; the message has the best there is.
    """
    curve = Curve(scores, is_gold, gold_total)
    place = curve.loosest(precision)
    if place is None:
        best = curve.cut(curve.most_precise())
        raise MexmaError(
            f"no threshold has a precision of {100 * precision:.2f} %: the highest is "
            f"{100 * best.precision:.2f} %, above {best.threshold} ({best.correct} of {best.count} pairs)",
            f"ask for less, such as --precision {np.floor(100 * best.precision) / 100:g}"
            if best.precision >= 0.01
            else None,
        )
    return curve.cut(place)


def choose(
    scores: np.ndarray, is_gold: np.ndarray, gold_total: int, precision: float | None = None
) -> Threshold:
    """`loosest` where a precision is wanted, `best_f1` where none is."""
    if precision is None:
        return best_f1(scores, is_gold, gold_total)
    return loosest(scores, is_gold, gold_total, precision)


def measured(scores: np.ndarray, is_gold: np.ndarray, gold_total: int, threshold: float) -> Threshold:
    """What a given threshold gives; arguments as `best_f1`, but there may be no scores."""
    kept = np.asarray(scores, dtype=np.float64) > threshold
    return _measured(threshold, int(kept.sum()), int((kept & is_gold).sum()), gold_total)


class Curve:
    """All cuts that do not go through equal scores, highest first.

    `order` int64 [n] ranks the candidates, `ends` int64 [c] are the ranks that the cuts come after; `count`
    and `correct` int64 [c] are what they keep.
    """

    def __init__(self, scores: np.ndarray, is_gold: np.ndarray, gold_total: int) -> None:
        if gold_total < 1 or not len(scores):
            raise ValueError("neither the candidates nor the gold pairs may be none")
        self.gold_total = gold_total
        self.order = np.argsort(-scores, kind="stable")
        self._ranked = np.asarray(scores, dtype=np.float64)[self.order]
        self.ends = np.flatnonzero(np.append(self._ranked[1:] != self._ranked[:-1], True))
        self.count, self.correct = self.ends + 1, np.cumsum(is_gold[self.order])[self.ends]

    def best(self) -> int:
        """The first cut of best F1."""
        return best_place(self.count, self.correct, self.gold_total)

    def loosest(self, precision: float) -> int | None:
        """The last cut of at least this precision; None: there is none."""
        return loosest_place(self.count, self.correct, precision)

    def most_precise(self) -> int:
        """Of the cuts of highest precision the last."""
        return most_precise_place(self.count, self.correct)

    def cut(self, place: int) -> Threshold:
        """A cut's threshold and what it gives."""
        count, correct = int(self.count[place]), int(self.correct[place])
        return _measured(self.threshold(place), count, correct, self.gold_total)

    def threshold(self, place: int) -> float:
        """The number between the scores on both sides of a cut."""
        low = self._ranked[self.ends[place + 1]] if place + 1 < len(self.ends) else None
        return between(self._ranked[self.ends[place]], low)


def best_place(count: np.ndarray, correct: np.ndarray, gold_total: float) -> int:
    """Where 2PR / (P + R) is highest for the first time; [c] kept pairs and correct ones among them."""
    both = count + gold_total
    if both[0] == 0:
        both = np.maximum(both, 1)
    return int((correct / both).argmax())


def loosest_place(count: np.ndarray, correct: np.ndarray, precision: float) -> int | None:
    """The last cut that keeps anything and has this precision; None: there is none."""
    enough = (correct >= 1) & (correct / np.maximum(count, 1) >= precision)
    return int(len(enough) - 1 - enough[::-1].argmax()) if enough.any() else None


def most_precise_place(count: np.ndarray, correct: np.ndarray) -> int:
    """The last of the cuts of highest precision."""
    share = correct / np.maximum(count, 1)
    return int(len(share) - 1 - share[::-1].argmax())


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
            return rounded
    return middle if middle < high else float(low)
