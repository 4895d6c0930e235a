"""Calibration from planted pairs: known translations, mined with a text, tell a threshold for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import xxhash

from mexma_cli.errors import MexmaError
from mexma_cli.mining.resampling import RESAMPLES, SEED, TAILS, TRIED_CUTS, Intervals
from mexma_cli.mining.threshold import between, chosen_place, most_precise_place, unreachable

FEWEST = 20
"""Planted pairs that must come back: with n of them the estimate's relative error is at least 1 / sqrt(n)."""
FEW = 100
"""With fewer planted pairs the estimate is poor, and an estimate from half of them useless."""


@dataclass(frozen=True)
class PlantedScores:
    """Scores of the mined pairs, float64, by whether a planted sentence is in them.

    Attributes:
        right: [r], of planted pairs that came back.
        right_of: int64 [r], the number of the planted pair, from 0.
        wrong: [w], of other pairs with a planted sentence.
        wrong_of: int64 [w], the number of the planted pair that the sentence belongs to.
        others: [o], of pairs without a planted sentence.
        planted: How many pairs were planted.
    """

    right: np.ndarray
    right_of: np.ndarray
    wrong: np.ndarray
    wrong_of: np.ndarray
    others: np.ndarray
    planted: int


@dataclass(frozen=True)
class CalibratedThreshold:
    """A threshold, and the pairs that score above it."""

    threshold: float
    found: int
    """Planted pairs that come back."""
    planted: int
    """Planted pairs in all."""
    wrong: int
    """Other pairs with a planted sentence."""
    others: int
    """Pairs of the text itself."""
    right: float
    """How many of the others are translations: an estimate."""
    translations: float
    """How many translations the text has in all: an estimate."""

    @property
    def recall(self) -> float:
        """Share of the planted pairs that came back."""
        return self.found / self.planted

    @property
    def precision(self) -> float:
        """Estimated share of translations among the text's own pairs."""
        return self.right / self.others if self.others else 0.0

    @property
    def f1(self) -> float:
        """2PR / (P + R) of the text's own pairs, as estimated."""
        return 2 * self.right / (self.others + self.translations)

    @property
    def planted_precision(self) -> float:
        """Share of right pairs among those with a planted sentence, as if every line had a translation."""
        return self.found / (self.found + self.wrong) if self.found else 0.0


class CalibrationCurve:
    """A cut after each pair with a planted sentence, highest score first, and an estimate of how many
    translations the text has. (Between two such pairs nothing is known.)

    Where the planted pairs are like the text's own T translations, a cut that keeps the share r of the
    planted pairs keeps about T r of the text's. So T r of the o other pairs that it keeps are right. T is
    estimated by an upper bound. Let p be the precision on the pairs with a planted sentence. The precision on
    the other pairs is p at most: the text has lines without a translation, too, which give wrong pairs only.
    So T <= o p / r at every cut, nearly with equality where hardly any pair is wrong, and T is taken as the
    least of these bounds. This is learning from positive and
    unlabelled examples (Elkan and Noto 2008, "Learning classifiers from only positive and unlabeled data";
    the least is chosen by its upper bound, so that a few pairs do not decide by chance, as in Garg et al.
    2021, "Mixture proportion estimation and PU learning: a modern approach").
    """

    def __init__(self, found: PlantedScores) -> None:
        if len(found.right) < FEWEST:
            raise MexmaError(
                f"{len(found.right)} of {found.planted:,} planted pairs came back; "
                f"at least {FEWEST} are needed to measure with",
                "plant more known translations, of the same kind as the text: some hundreds or better 1,000",
            )
        self._found = found
        self._others = np.sort(found.others)
        self._cuts = np.unique(np.concatenate([found.right, found.wrong]))[::-1]
        self._places = [self._first_kept(scores) for scores in (found.right, found.wrong)]
        self.found, wrong = (np.cumsum(np.bincount(p, minlength=len(self._cuts))) for p in self._places)
        self._touched = self.found + wrong
        self._below = np.searchsorted(self._others, self._cuts)
        self.others = len(self._others) - self._below
        self.translations = _translations(self.found, self._touched, self.others, found.planted)

    def choose(self, precision: float | None = None) -> int:
        """The cut of best F1, or the last of at least this precision, both as estimated.

        Raises:
            MexmaError: no cut has that precision, or the text seems to have no translations.
        """
        if self.others[-1] == 0 or self.translations < 1:
            raise MexmaError(
                "no pair of the text scores as high as the planted pairs: it seems to hold no translations",
                "plant known translations of the same kind as the text",
            )
        right = _right(self.found, self._touched, self.others, self.translations, self._found.planted)
        place = chosen_place(self.others, right, self.translations, precision)
        if place is None:
            assert precision is not None
            best = self.cut(most_precise_place(self.others, right))
            raise unreachable(precision, best.precision, f"above {best.threshold}", "about ")
        return place

    def cut(self, place: int) -> CalibratedThreshold:
        """The pairs that a cut keeps."""
        return self.measured(self.threshold(place))

    def measured(self, threshold: float) -> CalibratedThreshold:
        """The pairs that any threshold keeps."""
        found, planted = self._found, self._found.planted
        kept, wrong = (int((scores > threshold).sum()) for scores in (found.right, found.wrong))
        others = len(self._others) - int(np.searchsorted(self._others, threshold, side="right"))
        right = min(self.translations * kept / planted, others * kept / max(kept + wrong, 1))
        return CalibratedThreshold(threshold, kept, planted, wrong, others, right, self.translations)

    def threshold(self, place: int) -> float:
        """The number between the scores on both sides of a cut."""
        lower = [float(score) for score in self._cuts[place + 1 : place + 2]]
        if self._below[place]:
            lower.append(float(self._others[self._below[place] - 1]))
        return between(float(self._cuts[place]), max(lower, default=None))

    def ladder(self, shares: Sequence[float]) -> list[int]:
        """The highest cuts that keep these shares of the planted pairs that came back."""
        wanted = np.ceil(np.array(shares) * self.found[-1] - 1e-9)
        return np.unique(np.searchsorted(self.found, wanted)).tolist()

    def bootstrap(self, chosen: int, precision: float | None = None, resamples: int = RESAMPLES) -> Intervals:
        """95 % percentile intervals from resampled planted pairs and resampled other pairs.

        The planted pairs are drawn with replacement, found or not; the other pairs are a sample of what the
        text could have been, each drawn a Poisson number of times. The translations are estimated anew in
        each resample, and so is the threshold; the intervals of precision, recall and F1 are of the cut that
        was chosen. They do not say how far the planted pairs are from being like the text's. Fixed seed.
        """
        planted, last = self._found.planted, len(self._cuts) - 1
        cuts = np.union1d(np.linspace(0, last, TRIED_CUTS).astype(np.intp), chosen)
        printed, size = int(np.searchsorted(cuts, chosen)), len(cuts)
        right_bin, wrong_bin = (np.searchsorted(cuts, places) for places in self._places)
        other_bins = np.diff(self.others[cuts], prepend=0)
        rng = np.random.default_rng(SEED)
        figures = np.empty((resamples, 4))
        for row in figures:
            drawn = np.bincount(rng.integers(0, planted, planted), minlength=planted)
            found = np.cumsum(np.bincount(right_bin, drawn[self._found.right_of], size))
            touched = found + np.cumsum(np.bincount(wrong_bin, drawn[self._found.wrong_of], size))
            others = np.cumsum(rng.poisson(other_bins))
            total = _translations(found, touched, others, planted)
            right = _right(found, touched, others, total, planted)
            place = chosen_place(others, right, total, precision)
            if place is None:
                place = most_precise_place(others, right)
            row[0] = self.threshold(int(cuts[place]))
            row[1] = right[printed] / max(others[printed], 1)
            row[2] = found[printed] / planted
            row[3] = 2 * right[printed] / max(others[printed] + total, 1)
        low, high = np.quantile(figures, TAILS, axis=0).tolist()
        return Intervals(*zip(low, high, strict=True))

    def _first_kept(self, scores: np.ndarray) -> np.ndarray:
        """The first cut that keeps each score."""
        return len(self._cuts) - 1 - np.searchsorted(self._cuts[::-1], scores)


def held_out(found: PlantedScores, precision: float | None = None) -> CalibratedThreshold | None:
    """Choose by one half of the planted pairs, and measure with the other, which estimates anew.

    The halves depend on the pairs' numbers only (their hash). The pairs of the text itself serve both.

    Returns:
        None where fewer than `FEW` pairs are planted, or a half has too few that came back, or cannot be
        chosen by.
    """
    if found.planted < FEW:
        return None
    hashes = [xxhash.xxh3_64_intdigest(number.to_bytes(8, "little")) for number in range(found.planted)]
    first = np.zeros(found.planted, dtype=bool)
    first[np.argsort(np.array(hashes, dtype=np.uint64), kind="stable")[: found.planted // 2]] = True
    try:
        curves = [CalibrationCurve(_part(found, half)) for half in (first, ~first)]
        tuned, other = curves
        return other.measured(tuned.threshold(tuned.choose(precision)))
    except MexmaError:
        return None


def _part(found: PlantedScores, half: np.ndarray) -> PlantedScores:
    """The scores with some of the planted pairs (bool [planted]) and all of the text's own."""
    right, wrong = half[found.right_of], half[found.wrong_of]
    number = np.cumsum(half) - 1
    return PlantedScores(
        right=found.right[right],
        right_of=number[found.right_of[right]],
        wrong=found.wrong[wrong],
        wrong_of=number[found.wrong_of[wrong]],
        others=found.others,
        planted=int(half.sum()),
    )


def _translations(found: np.ndarray, touched: np.ndarray, others: np.ndarray, planted: int) -> float:
    """The bound of T, o p / r = o planted / touched, at the cut where it is least with two standard errors.

    Only cuts that keep a quarter of the planted pairs count: with fewer, the least would be so by chance.

    Args:
        found, touched, others: [c], how many pairs the cuts keep: planted pairs, all pairs with a planted
            sentence, and the others.
    """
    enough = np.flatnonzero(found >= min(max(FEWEST, planted / 4), found[-1]))
    found, touched, others = (np.maximum(a[enough], 1) for a in (found, touched, others))
    ratio = others * planted / touched
    return float(ratio[np.argmin(ratio * (1 + 2 * np.sqrt(1 / found + 1 / others)))])


def _right(
    found: np.ndarray, touched: np.ndarray, others: np.ndarray, translations: float, planted: int
) -> np.ndarray:
    """How many of the others are right, as estimated, float [c]."""
    return np.minimum(translations * found / planted, others * found / np.maximum(touched, 1))
