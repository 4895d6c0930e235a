"""How many of the pairs above a threshold are translations, by their probabilities, without a gold list."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mexma_cli.classifier.calibration import logits, recalibrated
from mexma_cli.mining.threshold import between, chosen_place, most_precise_place, unreachable
from mexma_cli.store.spool import Spool, slices_of
from mexma_cli.text.amounts import brief, counted

_TRIED = 1000  # thresholds
_AT_ONCE = 1 << 20  # scores
_BINS = np.linspace(-14, 14, 201)  # of logits
_DRAWS = 1000
_ERROR, _LABELLED_TIMES = 0.6, 0.4
"""Standard deviation of log(true / estimated wrong pairs) beyond chance, on the sets of
benchmarks/classifier.py; and how many times that it is once labels have corrected the probabilities."""
_UNEXPECTED = 0.5  # wrong pairs, or translations, that may be there where none is expected
_WRONG_TIMES, _SIGMAS, _NONE = 4.5, 1.96, 0.05
"""For each possible candidate that was not taken, so many of the likely pairs may be wrong, at the end of the
95 % interval, fitted on texts in Albanian, Hebrew and Spanish; and a low end below this part of the high one
is 0."""
ALIKE, _MOST_TIMES = 0.02, 2.0
"""Up to so large a part of the sum of the taken pairs' probabilities is that of likely others, in most texts;
beyond, lines are nearly equal, or hardly any is translated: both errors grow, up to so many times."""
_SHIFT, _SLOPE = 1.0, 0.45  # standard deviations of the prior of labels


class Errors(NamedTuple):
    """Standard deviations of log(true / estimated wrong pairs) of two texts, upwards and downwards. That of
    translations among the unlikely pairs has the same the other way round."""

    upwards: float = _ERROR
    downwards: float = _ERROR

    @classmethod
    def of(cls, wrong: float, possible: float, alike: float) -> Errors:
        """The errors of the taken pairs' probabilities, estimated from the candidates that were not taken.

        Wrong pairs, the best of many, come from the same sentences as the next best ones: where there is no
        translation at all, others of those sentences are possible as well, and the more of them, the more
        lines there are. So the number of those says how many wrong pairs there may be.

        Args:
            wrong: How many of the likely pairs are wrong, as estimated.
            possible: How many others are possible, though neither of their sentences is in a likely pair; at
                least 1.
            alike: Of likely others, the sum of the probabilities, by that of the pairs that were taken. Where
                lines are nearly equal, these are translations, too, and make each other less probable.
        """
        times = np.clip(alike / ALIKE, 1, _MOST_TIMES)
        most = _WRONG_TIMES * times * possible / (wrong + _UNEXPECTED)
        return cls(max(_ERROR, float(np.log(most)) / _SIGMAS), float(_ERROR * times))


USUAL = Errors()


class Translations(NamedTuple):
    """How many of some pairs are translations, as estimated, with the 95 % interval, and how many are copies,
    which are no translations."""

    expected: float
    low: float
    high: float
    copies: int
    others: float = 0
    """Pairs that are neither, as estimated; 0: not asked."""
    unlikely: float = 0
    """Those of them whose probability is 0.5 at most."""

    __repr__ = brief

    @property
    def droppable(self) -> bool:
        """Whether a threshold of 0.5, or one with a precision of 0.95, drops most of the others."""
        return max(self.others - self.unlikely, self.expected * 0.05 / 0.95) < self.others / 2

    def __str__(self) -> str:
        said = f"about {self.expected:,.0f} ({self.low:,.0f} to {self.high:,.0f}) are translations"
        return f"{said}, besides {counted(self.copies, 'copy', 'copies')}" if self.copies else said

    @classmethod
    def among(cls, probabilities: np.ndarray, copies: int, errors: Errors) -> Translations:
        """The count among pairs with these probabilities, float [n], best first, and so many copies."""
        if not len(probabilities):
            return cls(0, 0, 0, copies)
        model = PairPrecision(probabilities, probabilities, errors)
        expected = float(probabilities.sum(dtype="float64"))
        unlikely = probabilities[np.searchsorted(-probabilities, -0.5) :]
        wrong = len(unlikely) - float(unlikely.sum(dtype="float64"))
        interval = model.translations_interval
        return cls(expected, *interval, copies, len(probabilities) - expected, wrong)


@dataclass(frozen=True)
class EstimatedCut:
    """A threshold and what it gives, as estimated."""

    threshold: float
    count: int
    """Pairs above the threshold."""
    right: float
    """How many of them are translations."""
    translations: float
    """How many of all pairs are."""
    precision_interval: tuple[float, float]

    __repr__ = brief

    @property
    def precision(self) -> float:
        """Estimated share of translations among the pairs above the threshold."""
        return self.right / self.count

    @property
    def kept(self) -> float:
        """Estimated share of the translations among all pairs that are above the threshold."""
        return self.right / self.translations if self.translations else 0.0


class PairPrecision:
    """Pairs with any scores, and the probability that each is a translation.

    The precision above a threshold is the mean probability of the pairs there. What a person says of some
    pairs corrects it: with o the logit of a pair's probability, it becomes a + b o. How likely each (a, b) is
    follows from the labels and from a normal prior around (0, 1), by Bayes on a grid (Platt 1999,
    "Probabilistic outputs for support vector machines", with a prior).
    """

    def __init__(
        self,
        scores: np.ndarray,
        probabilities: np.ndarray,
        errors: Errors = USUAL,
        said: tuple[np.ndarray, np.ndarray] | None = None,
    ) -> None:
        """
        Args:
            scores: float [n], n > 0, best first. They may be memory-mapped: they are read in blocks.
            probabilities: float [n].
            errors: Of the texts that the pairs are from.
            said: Places of the pairs that were labelled, int [m], and whether they are right, bool [m].
        """
        self.scores, self._probabilities, self.errors = scores, probabilities, errors
        highest, lower = spread(ascending(scores), _TRIED)
        self.thresholds = np.array(list(map(between, highest.tolist(), lower.tolist())))
        size = len(self.thresholds), len(_BINS) + 1
        counts, sums = np.zeros(size[0] * size[1], np.int64), np.zeros(size[1])
        for part in slices_of(len(scores), _AT_ONCE):
            place = np.searchsorted(-self.thresholds, -scores[part].astype(np.float64), side="right")
            bins = np.searchsorted(_BINS, logits(probabilities[part]))
            counts += np.bincount(np.minimum(place, size[0] - 1) * size[1] + bins, minlength=len(counts))
            sums += np.bincount(bins, probabilities[part], size[1])
        self._counts = np.cumsum(counts.reshape(size), axis=0)
        means = sums / np.maximum(self._counts[-1], 1)
        rng = np.random.default_rng(0)
        self._error, self._chance = rng.standard_normal((2, _DRAWS))
        self._error *= np.where(self._error > 0, errors.upwards, errors.downwards)
        if said is None:
            self._line = np.zeros(1), np.ones(1)
            self._share = means[None]
        else:
            self._error *= _LABELLED_TIMES
            self._line = _drawn(logits(probabilities[said[0]]), said[1], rng)
            self._share = self._corrected(means)
        self.count = self._counts.sum(axis=1)
        self.right = self._counts @ self._share.mean(axis=0)

    def labelled(self, places: np.ndarray, right: np.ndarray) -> PairPrecision:
        """These pairs with the labels that a person gives to some, int and bool [m]."""
        return PairPrecision(self.scores, self._probabilities, self.errors, (places, right))

    def held_out(self, places: np.ndarray, right: np.ndarray) -> np.ndarray:
        """The probabilities of pairs as the labels of the others correct them, in ten parts, float32 [m];
        arguments as for `labelled`."""
        before, part = self._probabilities[places], np.arange(len(places)) % 10
        found = np.empty(len(places), np.float32)
        for one in range(min(10, len(places))):
            own = part == one
            line = _drawn(logits(before[~own]), right[~own], np.random.default_rng(0))
            found[own] = recalibrated(before[own], *(float(number.mean()) for number in line))
        return found

    def cut(self, place: int) -> EstimatedCut:
        """Precision, recall and count at one of the thresholds."""
        counts = self._counts[place]
        count = int(self.count[place])
        low, high = self._interval(counts)
        right, interval = float(self.right[place]), (low / count, high / count)
        return EstimatedCut(float(self.thresholds[place]), count, right, float(self.right[-1]), interval)

    def choose(self, precision: float | None = None) -> EstimatedCut:
        """The threshold of best F1, or the lowest of at least this precision, of 1,000 that are tried; a
        precision that none of them has is refused."""
        place = chosen_place(self.count, self.right, self.right[-1], precision)
        if place is None:
            assert precision is not None
            best = self.cut(most_precise_place(self.count, self.right))
            raise unreachable(precision, best.precision, f"above {best.threshold}", "about ")
        return self.cut(place)

    def ladder(self, shares: Sequence[float]) -> list[EstimatedCut]:
        """The highest thresholds above which these shares of the translations are."""
        places = np.searchsorted(self.right, np.array(shares) * self.right[-1])
        return [self.cut(place) for place in np.minimum(places, len(self.right) - 1).tolist()]

    @property
    def translations_interval(self) -> tuple[float, float]:
        """The 95 % interval of the number of translations among all pairs."""
        return self._interval(self._counts[-1])

    def _interval(self, counts: np.ndarray) -> tuple[float, float]:
        """The 95 % interval of the number of translations among so many pairs of each bin, int [bins]: the
        wrong ones of those above a probability of 0.5 have the error, and the translations below it the
        inverse one."""
        likely = np.append(_BINS, np.inf) > 0
        wrong = ((1 - self._share[:, likely]) @ counts[likely] + _UNEXPECTED) * np.exp(self._error)
        missed = (self._share[:, ~likely] @ counts[~likely] + _UNEXPECTED) * np.exp(-self._error)
        above, below = counts[likely].sum(), counts[~likely].sum()
        spread = np.sqrt((self._share * (1 - self._share)) @ counts + _UNEXPECTED)
        found = np.maximum(above - wrong, 0) + np.minimum(missed, below) - self._chance * spread
        low, high = np.quantile(np.clip(found, 0, above + below), [0.025, 0.975]).tolist()
        return low if low > _NONE * high else 0.0, high

    @property
    def probabilities(self) -> np.ndarray:
        """Probabilities that each pair is right, as corrected by the labels, float [n]."""
        if len(self._line[0]) == 1:
            return self._probabilities
        grid = self._corrected(1 / (1 + np.exp(-_BINS))).mean(axis=0)
        return np.interp(logits(self._probabilities), _BINS, grid)

    @property
    def answers(self) -> tuple[float, float]:
        """How labels correct a logit, as in `Classifier.answers`: the posterior means of both numbers."""
        shift, slope = self._line
        return float(shift.mean()), float(slope.mean())

    def _corrected(self, probabilities: np.ndarray) -> np.ndarray:
        """float [draws, n]."""
        shift, slope = self._line
        return 1 / (1 + np.exp(-(shift[:, None] + slope[:, None] * logits(probabilities))))


def _drawn(known: np.ndarray, right: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Shifts and slopes, as likely as labels of pairs with these logits make them, float [draws] each."""
    shift, slope = np.meshgrid(np.linspace(-4, 4, 81), np.linspace(0.05, 2.5, 50), indexing="ij")
    corrected = shift[..., None] + slope[..., None] * known
    likely = (right * corrected - np.logaddexp(0, corrected)).sum(axis=-1)
    likely -= (shift / _SHIFT) ** 2 / 2 + ((slope - 1) / _SLOPE) ** 2 / 2
    chances = np.exp(likely - likely.max()).ravel()
    drawn = rng.choice(chances.size, _DRAWS, p=chances / chances.sum())
    return shift.ravel()[drawn], slope.ravel()[drawn]


def pairs_to_label(probabilities: np.ndarray, count: int) -> np.ndarray:
    """Pairs whose labels tell most: most of them where the probability is in doubt, some at every score.

    Args:
        probabilities: float [n], of pairs that are sorted by score.

    Returns:
        int64 [n <= count], the places of pairs, each once, in random order.
    """
    doubt = np.cumsum(np.sqrt(probabilities * (1 - probabilities)) + 0.02)
    rng = np.random.default_rng(0)
    places = np.searchsorted(doubt / doubt[-1], (np.arange(count) + rng.random(count)) / count)
    return rng.permutation(np.unique(np.minimum(places, len(doubt) - 1)))


def ascending(falling: np.ndarray) -> np.ndarray:
    """Scores, best first, the other way round: float64 [n], memory-mapped from a temporary file."""
    found = Spool(np.float64)
    for part in slices_of(len(falling), _AT_ONCE):
        found.write(falling[::-1][part])
    return found.array()


def spread(ascending: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Up to `most` distinct values, evenly spread by rank among the distinct ones, falling; and the next
    lower one of each, of the lowest one 1e-6 less."""

    def distinct() -> Iterator[np.ndarray]:
        for part in slices_of(len(ascending), _AT_ONCE):
            some = ascending[part]
            before = ascending[part.start - 1] if part.start else np.nan
            yield some[some != np.append(before, some[:-1])]

    count = sum(map(len, distinct()))
    falling = np.unique(np.linspace(0, count - 1, most).astype(np.intp))
    wanted = np.unique(np.append(count - 1 - falling, np.maximum(count - 2 - falling, 0)))
    found, before = [np.empty(0)], 0
    for some in distinct():
        inside = wanted[(wanted >= before) & (wanted < before + len(some))]
        found.append(some[inside - before])
        before += len(some)
    values = np.concatenate(found)
    places = count - 1 - falling
    highest = values[np.searchsorted(wanted, places)]
    lower = np.where(places > 0, values[np.searchsorted(wanted, np.maximum(places - 1, 0))], highest - 1e-6)
    return highest, lower
