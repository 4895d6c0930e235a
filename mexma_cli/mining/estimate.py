"""Precision of mined pairs from their scores alone, without a gold list or known translations."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mexma_cli.mining.candidates import Candidates
from mexma_cli.mining.ranked import ascending, blocks, quantiles, spread
from mexma_cli.mining.threshold import between, chosen_place, most_precise_place, unreachable
from mexma_cli.store.spool import gathered, scattered

_POINTS = 256  # scores at which the model is fitted
_EXPONENTS = np.arange(0.1, 1.21, 0.02)
_TAIL = 60  # the best second-round scores, from which the number of still higher ones is extrapolated
_ALIKE, _DRIFT = (0.4, 0.9), 2.0  # logarithms of shares, see `ScoreModel._drift`
_FEW_RIGHT, _MOSTLY = 20, 0.4  # pairs that are right, and share of wrong ones, for that to be seen
_TRIED = 1000  # thresholds
_SHIFT, _SLOPE = 1.0, 0.45  # standard deviations of the prior of labels
_LABELLED_ERROR = 0.25  # as `_Experience.error`, once labels have corrected the model
_PROBABLE_ERROR = 0.6  # as `_Experience.error`, of probabilities
_DRAWS = 1000
_BINS = 64
FEWEST = 100
"""Pairs of each round without which there is no estimate."""


class _Experience(NamedTuple):
    """What mixtures of real texts had: mean and standard deviation of the exponent e, and the standard
    deviation of log(estimated / true wrong pairs) beyond chance.
    """

    exponent: float
    spread: float
    error: float


_WHOLE = _Experience(0.35, 0.12, 0.4)
_WITHIN = _Experience(0.65, 0.25, 0.5)
"""Of pairs within documents, some of which have translations and others none."""


@dataclass(frozen=True)
class EstimatedCut:
    """A threshold and what it gives, as estimated."""

    threshold: float
    count: int
    """Pairs above the threshold."""
    right: float
    """How many of them are translations."""
    translations: float
    """How many there are in all: those that stand out from the wrong pairs, if no more is known."""
    precision_interval: tuple[float, float]

    @property
    def precision(self) -> float:
        """Estimated share of translations among the pairs above the threshold."""
        return self.right / self.count if self.count else 0.0

    @property
    def recall(self) -> float:
        """Estimated share of the translations among all pairs that are above the threshold."""
        return min(self.right / self.translations, 1.0) if self.translations else 0.0

    @property
    def f1(self) -> float:
        """2PR / (P + R), as estimated."""
        return 2 * self.right / (self.count + self.translations) if self.count else 0.0


class PrecisionModel(ABC):
    """How many of the pairs above a threshold are right."""

    def __init__(self, ascending: np.ndarray) -> None:
        """
        Args:
            ascending: float64 [n], the scores of all pairs.
        """
        highest, next_lower = spread(ascending, _TRIED)
        self.thresholds = list(map(between, highest.tolist(), next_lower.tolist()))

    @abstractmethod
    def cut(self, threshold: float) -> EstimatedCut:
        """What a threshold gives."""

    @abstractmethod
    def probability(self, scores: np.ndarray) -> np.ndarray:
        """That a pair with this score is right, float [n]; it does not fall."""

    def choose(self, precision: float | None = None) -> float:
        """The threshold of best F1, or the lowest of at least this precision, of 1,000 that are tried.

        Raises:
            MexmaError: no threshold has that precision.
        """
        cuts = list(map(self.cut, self.thresholds))
        if precision is None:
            return max(cuts, key=lambda cut: cut.f1).threshold
        count, right = (np.array([getattr(cut, name) for cut in cuts]) for name in ("count", "right"))
        place = chosen_place(count, right, cuts[-1].translations, precision)
        if place is None:
            best = cuts[most_precise_place(count, right)]
            raise unreachable(precision, best.precision, f"above {best.threshold}", "about ")
        return self.thresholds[place]

    def ladder(self, recalls: Sequence[float]) -> list[float]:
        """The highest thresholds above which these shares of the right pairs are."""
        found = np.maximum.accumulate([self.cut(threshold).recall for threshold in self.thresholds])
        places = np.minimum(np.searchsorted(found, recalls), len(found) - 1)
        return [self.thresholds[place] for place in places.tolist()]


class ScoreModel(PrecisionModel):
    """How many of the pairs above a score are wrong, from a second round without the first one's pairs.

    Mine; take every pair that came out from both neighbourhoods; mine again. Hardly a pair of the second
    round is right. A row whose first pair was right now has its best wrong one, so these scores are spread
    as those of the first round's wrong pairs. A row whose first pair was wrong now has its second-best wrong
    one, which scores lower: where a share q of best wrong pairs lies above a score, a share near q^(1 + e) of
    the second-best does. With C pairs in the first round, W of them wrong, the share above a score in the
    second is

        S = (1 - W/C) q + (W/C) q S^e    and so    q = S / (1 - W/C + (W/C) S^e)

    W is the least number that the first round allows: no more than (pairs below a score) / (1 - q) at any
    score, as in Storey 2002, "A direct approach to false discovery rates". e is chosen so that W (1 - q)
    follows the pairs below all low scores, where hardly a pair is right. Where W is small, wrong pairs
    compete for the few rows that are left over: of W q above a score, about W q f^((2 - q) / 5) remain, f
    being the share of such rows (the geometric mean of both sides; rows without a pair count as pairs of the
    longer side only).

    All this holds for translations that are like the rest of the text. Where they are of another kind (a
    corpus of news with everyday sentences around them), `drift` says by how much; see `_drift`.

    e's distribution, that last exponent, the error of the model and what drift does were measured on mixtures
    of real texts; benchmarks/thresholds.py repeats that.

    Attributes:
        wrong: W.
        drift: added to the logarithm of the expected wrong pairs, whose error it adds to, too.
    """

    def __init__(
        self, first: Candidates, second: Candidates, rows: tuple[int, int], within: bool = False
    ) -> None:
        """
        Args:
            first, second: the pairs of both rounds, best first. They may be memory-mapped: they are read in
                blocks, and sorted scores are kept in temporary files.
            rows: of both sides, those that take part.
            within: the pairs are from documents that are paired.
        """
        self._more = abs(rows[0] - rows[1])
        self._experience = _WITHIN if within else _WHOLE
        self._first, self._second = ascending(first.scores), ascending(second.scores)
        super().__init__(self._first)
        self.drift = 0.0
        self._points = np.unique(quantiles(self._second, np.linspace(0.05, 0.88, _POINTS)))
        above = self._above(self._points)
        below = np.searchsorted(self._first, self._points, side="right")
        fits = [self._fitted(exponent, above, below) for exponent in _EXPONENTS]
        _, self._exponent, self.wrong = min(fits)
        self.drift = self._drift(first, second)

    @property
    def translations(self) -> float:
        """Translations among the pairs of the first round."""
        return len(self._first) - float(self.wrong_above(self._first[:1] - 1)[0])

    def count_above(self, scores: np.ndarray) -> np.ndarray:
        """Pairs above each score, int64 [n]."""
        return len(self._first) - np.searchsorted(self._first, scores, side="right")

    def wrong_above(self, scores: np.ndarray) -> np.ndarray:
        """Expected number of wrong pairs above each score, float [n]."""
        q = self._wrong_share(self._above(scores), self.wrong, self._exponent)
        pairs, more = len(self._first), self._more
        free = np.sqrt(self.wrong / pairs * (self.wrong + more) / (pairs + more))
        few = self.wrong * q * free ** ((2 - q) / 5)
        return np.minimum(few * np.exp(self.drift * (1 - q)), self.wrong)

    def cut(self, threshold: float) -> EstimatedCut:
        count = int(self.count_above(np.array([threshold]))[0])
        wrong = float(min(self.wrong_above(np.array([threshold]))[0], count))
        known = len(self._second) - int(np.searchsorted(self._second, threshold, side="right"))
        error = np.sqrt(self._experience.error**2 + (self.drift / 2) ** 2 + 1 / max(known, 1))
        spread = np.exp([1.96 * error, -1.96 * error])
        by_chance = 1.96 * np.sqrt(wrong) * np.array([1, -1])
        limits = 1 - np.clip(wrong * spread + by_chance, 0, count) / max(count, 1)
        low, high = float(limits[0]), float(limits[1])
        right = count - wrong
        return EstimatedCut(threshold, count, right, max(self.translations, right), (low, high))

    def _drift(self, first: Candidates, second: Candidates) -> float:
        """How unlike the rest of the text the translations are; 0 where they are like it.

        In the second round, rows whose first pair was right usually score higher than the others: above the
        score that 30% of all are above lie 1.5 to 2.5 times as large a share of them. If it is fewer, the
        translations are of a kind that has few near misses, and the wrong pairs are more than estimated from
        them; if it is more, the other way round.
        """
        if self.wrong < _MOSTLY * len(first):
            return 0.0
        known = self._of_rows(first, second)
        bound, every, high = quantiles(second.scores[::-1], 0.7), np.zeros(2), np.zeros(2)
        for part in blocks(len(second)):
            some = second.take(part)
            sides = [gathered(known[side], rows) for side, rows in enumerate((some.source, some.target))]
            both, none = sides[0] * sides[1], (1 - sides[0]) * (1 - sides[1])
            every += both.sum(), none.sum()
            above = some.scores > bound
            high += both @ above, none @ above
        if every[0] < _FEW_RIGHT:
            return 0.0
        shares = high / every + 1e-3
        ratio = np.log(shares[0] / shares[1])
        return float(_DRIFT * (np.clip(ratio, *_ALIKE) - ratio))

    def _of_rows(self, first: Candidates, second: Candidates) -> list[np.ndarray]:
        """For every row of source and target that is in a pair, that its pair of the first round is right,
        float64 [rows], memory-mapped; 0 where it is in none."""
        found = []
        for name in ("source", "target"):
            rows = getattr(first, name)
            count = 1 + max(int(rows.max()), int(getattr(second, name).max()))
            right = ((rows[part], self.probability(first.scores[part])) for part in blocks(len(first)))
            found.append(scattered(count, np.float64, 0.0, right))
        return found

    def _fitted(self, exponent: float, above: np.ndarray, below: np.ndarray) -> tuple[float, float, float]:
        """(loss, exponent, wrong pairs) with the least bound of the wrong pairs."""
        pairs, wrong = len(self._first), 0.9 * len(self._first)
        for _ in range(60):
            share = self._wrong_share(above, wrong, exponent)
            lower = np.maximum(1 - share, 1e-9)
            bound = below / lower
            error = np.sqrt(1 / np.maximum(below, 1) + share / (lower * len(self._second)))
            least = min(float(np.min(bound * (1 + error))), pairs)
            if abs(least - wrong) < 0.1:
                break
            wrong = (wrong + least) / 2
        share = self._wrong_share(above, wrong, exponent)
        low = above > 0.25
        variance = wrong * share * (1 - share) * (1 + pairs / len(self._second)) + 4 + (0.01 * pairs) ** 2
        misfit = np.mean(((below - wrong * (1 - share)) ** 2 / variance)[low]) if low.any() else 0.0
        unlikely = ((exponent - self._experience.exponent) / self._experience.spread) ** 2 / 4
        return float(misfit + unlikely), exponent, wrong

    def _wrong_share(self, above: np.ndarray, wrong: float, exponent: float) -> np.ndarray:
        """q: the share of the wrong pairs above scores that `above` of the second round are above."""
        share = wrong / len(self._first)
        return np.minimum(above / (1 - share + share * np.maximum(above, 1e-12) ** exponent), 1)

    def _above(self, scores: np.ndarray) -> np.ndarray:
        """Share of the second round above scores; beyond its best ones on, an exponential tail."""
        second = self._second
        tail = second[-min(_TAIL, len(second) // 4) :]
        start, scale = tail[0], max(float(np.mean(tail[1:] - tail[0])), 1e-9)
        counted = 1 - np.searchsorted(second, scores, side="right") / len(second)
        beyond = len(tail) / len(second) * np.exp(-np.maximum(scores - start, 0) / scale)
        return np.where(scores > start, (counted + beyond) / 2, counted)

    def probability(self, scores: np.ndarray) -> np.ndarray:
        return 1 / (1 + np.exp(-self.log_odds(scores)))

    def log_odds(self, scores: np.ndarray) -> np.ndarray:
        """log(p / (1 - p)) of `probability`."""
        edges = np.unique(np.append(self._first[0] - 1e-9, quantiles(self._first, np.linspace(0, 1, 41))))
        above = len(self._first) - np.searchsorted(self._first, edges, side="right")
        pairs = np.maximum(above[:-1] - above[1:], 1)
        wrong = -np.diff(np.minimum(self.wrong_above(edges), above))
        share = _rising(np.clip(1 - wrong / pairs, 0.005, 0.995), pairs)
        return np.interp(scores, (edges[1:] + edges[:-1]) / 2, np.log(share / (1 - share)))


def _rising(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The nearest values that do not fall, by pooling neighbours that do (isotonic regression)."""
    pools: list[tuple[float, float, int]] = []
    for value, weight in zip(values.tolist(), weights.tolist(), strict=True):
        size = 1
        while pools and pools[-1][0] > value:
            other, its_weight, its_size = pools.pop()
            value = (value * weight + other * its_weight) / (weight + its_weight)
            weight, size = weight + its_weight, size + its_size
        pools.append((value, weight, size))
    return np.concatenate([np.full(size, value) for value, _, size in pools])


class ProbabilityModel(PrecisionModel):
    """Pairs whose scores are the probabilities that they are right: precision is their mean.

    The error of the number of wrong pairs is that of benchmarks/classifier.py's sets.
    """

    drift = 0.0

    def __init__(self, scores: np.ndarray) -> None:
        """
        Args:
            scores: float [C], of all pairs.
        """
        self._scores = np.sort(np.asarray(scores, dtype=np.float64))
        super().__init__(self._scores)
        rising = self._scores[::-1]
        self._right = np.append(0, np.cumsum(rising))
        self._variance = np.append(0, np.cumsum(rising * (1 - rising)))

    def cut(self, threshold: float) -> EstimatedCut:
        count = len(self._scores) - int(np.searchsorted(self._scores, threshold, side="right"))
        right, chance = float(self._right[count]), 1.96 * float(np.sqrt(self._variance[count]))
        error = 1.96 * _PROBABLE_ERROR
        wrong = (count - right) * np.exp([error, -error]) + np.array([chance, -chance])
        low, high = (1 - np.clip(wrong, 0, count) / max(count, 1)).tolist()
        return EstimatedCut(threshold, count, right, float(self._right[-1]), (low, high))

    def probability(self, scores: np.ndarray) -> np.ndarray:
        return np.asarray(scores, dtype=np.float64)

    def log_odds(self, scores: np.ndarray) -> np.ndarray:
        """log(p / (1 - p)) of `probability`."""
        known = self.probability(scores).clip(1e-6, 1 - 1e-6)
        return np.log(known / (1 - known))


class LabelledModel(PrecisionModel):
    """A model, corrected by what a person says of some pairs.

    With o the model's log odds that a pair is right, they become a + b o. How likely each (a, b) is follows
    from the labels and from a normal prior around (0, 1), by Bayes on a grid.
    """

    def __init__(
        self,
        model: ScoreModel | ProbabilityModel,
        scores: np.ndarray,
        labelled: np.ndarray,
        right: np.ndarray,
    ) -> None:
        """
        Args:
            scores: float [C], of all pairs.
            labelled: int [n], which pairs were labelled, as `pairs_to_label` drew them.
            right: bool [n].
        """
        super().__init__(np.sort(np.asarray(scores, dtype=np.float64)))
        self._negated = np.sort(-np.asarray(scores, dtype=np.float64))
        odds = model.log_odds(-self._negated)  # falling
        edges = np.linspace(odds[0], odds[-1], _BINS + 1)
        self._starts = np.searchsorted(-odds, -edges)
        self._starts[0], self._starts[-1] = 0, len(odds)
        self._odds = (edges[1:] + edges[:-1]) / 2
        known = model.log_odds(np.asarray(scores, dtype=np.float64)[labelled])
        shift, slope = np.meshgrid(np.linspace(-4, 4, 81), np.linspace(0.05, 2.5, 50), indexing="ij")
        corrected = shift[..., None] + slope[..., None] * known
        likely = (right * corrected - np.logaddexp(0, corrected)).sum(axis=-1)
        likely -= (shift / _SHIFT) ** 2 / 2 + ((slope - 1) / _SLOPE) ** 2 / 2
        chances = np.exp(likely - likely.max()).ravel()
        rng = np.random.default_rng(0)
        drawn = rng.choice(chances.size, _DRAWS, p=chances / chances.sum())
        shift, slope = shift.ravel()[drawn, None], slope.ravel()[drawn, None]
        self._model, self._share = model, 1 / (1 + np.exp(-(shift + slope * self._odds)))
        self._error, self._chance = rng.standard_normal((2, _DRAWS))
        self._error *= np.hypot(_LABELLED_ERROR, model.drift / 2)

    def cut(self, threshold: float) -> EstimatedCut:
        count = int(np.searchsorted(self._negated, -threshold))
        right, spread = self._right(count)
        wrong = (count - right) * np.exp(self._error) + self._chance * spread
        low, high = np.quantile(1 - np.clip(wrong / max(count, 1), 0, 1), [0.025, 0.975]).tolist()
        every = float(np.mean(self._right(len(self._negated))[0]))
        return EstimatedCut(threshold, count, float(np.mean(right)), every, (low, high))

    def probability(self, scores: np.ndarray) -> np.ndarray:
        return np.interp(self._model.log_odds(scores), self._odds[::-1], self._share.mean(axis=0)[::-1])

    def _right(self, best: int) -> tuple[np.ndarray, np.ndarray]:
        """Right pairs among the best ones, float [draws], and their standard deviation by chance."""
        pairs = np.diff(np.minimum(self._starts, best))
        return self._share @ pairs, np.sqrt((self._share * (1 - self._share)) @ pairs)


def pairs_to_label(model: PrecisionModel, scores: np.ndarray, count: int, seed: int = 0) -> np.ndarray:
    """Pairs whose labels tell most: most of them where the model is in doubt, some at every score.

    Returns:
        int64 [n <= count], each pair once, in random order.
    """
    share = model.probability(scores)
    order = np.argsort(-np.asarray(scores), kind="stable")
    doubt = np.cumsum((np.sqrt(share * (1 - share)) + 0.02)[order])
    rng = np.random.default_rng(seed)
    places = np.searchsorted(doubt / doubt[-1], (np.arange(count) + rng.random(count)) / count)
    return rng.permutation(np.unique(order[np.minimum(places, len(order) - 1)]))
