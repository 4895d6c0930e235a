"""Weights for a classifier, from parallel text, or from candidates of which it is known which are right."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from mexma_cli.classifier.calibration import calibrated, logits
from mexma_cli.classifier.features import FEATURES, columns, spread_of
from mexma_cli.classifier.model import Classifier, ClassifierWeights, bundled_weights, features_for
from mexma_cli.classifier.pairs import Pairs, known_of
from mexma_cli.classifier.words import EmbedWords
from mexma_cli.errors import MexmaError
from mexma_cli.knn.exact import knn
from mexma_cli.languages import UNSTATED
from mexma_cli.mining.candidates import Candidates, best_first
from mexma_cli.mining.match import match
from mexma_cli.mining.retrieval import OneToOne
from mexma_cli.mining.threshold import Threshold, best_threshold
from mexma_cli.settings.stages import MineSettings

log = logging.getLogger(__name__)

FEWEST, ENOUGH = 100, 500
"""Pairs without which there is no training; and without which only the bundled weights are recalibrated."""
MOST = 20_000
"""Pairs that are looked at."""
_HELD_OUT = 0.3
_WHOLE = 0.12
"""Share of the pairs that stay whole in a mining set; of the others, a half gives sources, one targets."""
_NEWTON_STEPS = 30
_TIMES = 3
"""Mining sets that are made of the same pairs."""


def examples(pairs: Pairs, names: tuple[str, ...], correct: np.ndarray) -> np.ndarray:
    """The features of all candidates of two texts, float32 [N, features].

    Args:
        pairs: As `Classifier.scored` takes them.
        correct: bool [N].
    """
    return columns(pairs, names, spread_of(pairs, names, correct))


def fit(names: tuple[str, ...], values: Sequence[np.ndarray], correct: Sequence[np.ndarray]) -> Classifier:
    """Fit a logistic regression with an L2 penalty of 1 on standardised features, by Newton's method. Each
    pair of texts has its own intercept, as probabilities are shifted to fit texts; the result has their mean.

    Args:
        values: float32 [N, features], of each pair of texts.
        correct: bool [N].
    """
    every, truth = np.concatenate(values).astype(np.float64), np.concatenate(correct)
    means, scales = every.mean(axis=0), every.std(axis=0)
    for place in np.flatnonzero(scales < 1e-6).tolist():
        log.warning(
            "%s is the same for every pair, so it has no weight; are the languages stated?", names[place]
        )
    scales[scales < 1e-6] = 1
    of_set = np.repeat(np.eye(len(values)), [len(some) for some in values], axis=0)
    standard = np.column_stack([(every - means) / scales, of_set])
    penalty = np.append(np.ones(len(names)), np.full(len(values), 0.01))  # hardly any on intercepts
    weights = np.zeros(len(penalty))
    for _ in range(_NEWTON_STEPS):
        chance = 1 / (1 + np.exp(-standard @ weights))
        slope = standard.T @ (chance - truth) + penalty * weights
        curvature = (standard.T * (chance * (1 - chance))) @ standard + np.diag(penalty)
        step = np.linalg.solve(curvature, slope)
        weights -= step
        if abs(step).max() < 1e-6:
            break
    weights, intercepts = np.split(weights, [len(names)])
    mean, scale, weight = (tuple(one.tolist()) for one in (means, scales, weights))
    return Classifier(names, mean, scale, weight, float(intercepts.mean()))


def recalibrated(one: Classifier, scores: Sequence[np.ndarray], correct: Sequence[np.ndarray]) -> Classifier:
    """A classifier whose logits o become a + b o, as fits the probabilities that it gives candidates (Platt
    scaling)."""
    line = fit(("logit",), [logits(some)[:, None] for some in scores], correct)
    slope = max(line.coefficients[0] / line.scales[0], 0.05)
    shift = line.intercept - slope * line.means[0]
    coefficients = tuple(slope * value for value in one.coefficients)
    return replace(one, coefficients=coefficients, intercept=shift + slope * one.intercept, screen=None)


def best_one_to_one(
    found: Candidates, scores: np.ndarray, correct: np.ndarray, rows: tuple[int, int], gold: int
) -> tuple[Threshold, np.ndarray, np.ndarray]:
    """The cut of best F1 where candidates are taken by some scores, one to one; the scores of what is taken,
    best first, and which are correct.

    Args:
        scores, correct: float and bool [n], of the candidates.
        rows: Of both sides.
        gold: How many translations there are.
    """
    scored = best_first(Candidates(scores, found.source, found.target, np.arange(len(found))))
    scored = scored.take(OneToOne(rows).taken(scored))
    right = correct[scored.cosines]
    return best_threshold(scored.scores, right, gold), scored.scores, right


def calibration_error(probabilities: np.ndarray, correct: np.ndarray) -> float:
    """Expected calibration error in percent: the mean distance, weighed by pairs, of the mean probability in
    a tenth from the share that is correct."""
    tenth = np.minimum((probabilities * 10).astype(int), 9)
    inside = [tenth == one for one in range(10) if (tenth == one).any()]
    return 100 * sum(one.mean() * abs(probabilities[one].mean() - correct[one].mean()) for one in inside)


@dataclass(frozen=True)
class Parallel:
    """N pairs of sentences, no sentence twice; their vectors, float32 [N, dim]; `embed` is their encoder."""

    texts: tuple[list[str], list[str]]
    vectors: tuple[np.ndarray, np.ndarray]
    embed: EmbedWords
    languages: tuple[str, str] = (UNSTATED, UNSTATED)


@dataclass(frozen=True)
class Measures:
    """On the part that was held out, means over mining sets, in percent.

    Attributes:
        f1: The best, by what scored the candidates.
        calibration: The calibration error.
    """

    f1: dict[str, float]
    calibration: dict[str, float]


@dataclass(frozen=True)
class TrainedClassifier:
    """Weights, and how good they are on pairs that were held out.

    Attributes:
        pairs: How many they were trained on.
        held_out: How many others there are.
        translations: How many translations the mining sets made of the others have, all together.
    """

    weights: ClassifierWeights
    pairs: int
    held_out: int
    translations: int
    measures: Measures


@dataclass(frozen=True)
class _Set:
    """Two texts that are made of parallel ones, to be mined."""

    pairs: Pairs
    correct: np.ndarray
    gold: int

    @property
    def rows(self) -> tuple[int, int]:
        """Sentences of both sides."""
        source, target = self.pairs.sides
        return source.lists.count, target.lists.count

    def features(self, names: tuple[str, ...]) -> np.ndarray:
        return examples(self.pairs, names, self.correct)

    def scores(self, model: Classifier) -> np.ndarray:
        """Probabilities of all candidates, before they fit the texts, float32 [N]."""
        return np.concatenate([some.scores for some in model.scored(self.pairs)])


def train(parallel: Parallel, start: ClassifierWeights, k: int) -> TrainedClassifier:
    """Train on two thirds of some pairs, and measure on the others.

    Mining sets are made of the pairs: some stay whole, of the others one half gives its sources and one its
    targets. Each is mined, and what is found beside the whole pairs is wrong.

    Args:
        start: Weights that are recalibrated where there are fewer than `ENOUGH` pairs, and compared; with
            `about` and the encoder as the result has them.

    Raises:
        MexmaError: Too few pairs.
    """
    count = len(parallel.texts[0])
    if count < FEWEST:
        raise MexmaError(
            f"{count:,} different pairs are too few to train a classifier: {FEWEST} are the least",
            "give more translations, or mine with the classifier that comes with the package",
        )
    own = [name for name, one in FEATURES.items() if one.module]
    if own and count < ENOUGH:
        raise MexmaError(
            f"{count:,} pairs are too few to learn what {own[0]!r} tells: {ENOUGH} are the least"
        )
    order = np.random.default_rng(0).permutation(count)
    held_out = int(_HELD_OUT * count)
    sets, others = (
        [_made(parallel, np.random.default_rng(seed).permutation(some), k) for seed in range(_TIMES)]
        for some in (order[held_out:], order[:held_out])
    )
    correct, by = [one.correct for one in sets], dict[str, Classifier]()
    for needs in ("text", "words"):
        old = start.by[needs]
        if count < ENOUGH:
            by[needs] = recalibrated(old, [one.scores(replace(old, screen=None)) for one in sets], correct)
        else:
            names = features_for(needs)
            by[needs] = fit(names, [one.features(names) for one in sets], correct)
    usual = (
        "words" if start.fingerprint == bundled_weights().fingerprint else "text"
    )  # as `mexma mine` takes it
    compared = {"bundled": start.by[usual], "trained": by["words"]}
    f1, calibration = {"margin": 0.0}, dict[str, float]()
    best = [_best(one, one.pairs.candidates.scores) for one in others]
    f1["margin"] = 100 * float(np.mean([cut.f1 for cut, _, _ in best]))
    for name, model in compared.items():
        cuts, errors = [], []
        for one in others:
            every = one.scores(model)
            cut, taken, right = _best(one, every)
            cuts.append(cut.f1)
            errors.append(calibration_error(calibrated(taken, every, sum(one.rows)), right))
        f1[name], calibration[name] = 100 * float(np.mean(cuts)), float(np.mean(errors))
    translations = sum(one.gold for one in others)
    return TrainedClassifier(
        replace(start, by=by), count - held_out, held_out, translations, Measures(f1, calibration)
    )


def _made(parallel: Parallel, rows: np.ndarray, k: int) -> _Set:
    """A mining set of some pairs."""
    whole = max(int(_WHOLE * len(rows)), 5)
    torn = rows[whole:]
    sides = np.append(rows[:whole], torn[::2]), np.append(rows[:whole], torn[1::2])
    texts = [[text[row] for row in side.tolist()] for text, side in zip(parallel.texts, sides, strict=True)]
    near = knn(parallel.vectors[0][sides[0]], parallel.vectors[1][sides[1]], k)
    known = known_of(near, (partial(iter, texts[0]), partial(iter, texts[1])), parallel.embed)
    first, second = (
        replace(side, texts=partial(_at, text), language=language)
        for side, text, language in zip(known, texts, parallel.languages, strict=True)
    )
    pairs = Pairs(match(near, MineSettings(retrieval="all")), (first, second))
    found = pairs.candidates
    return _Set(pairs, (found.source == found.target) & (found.source < whole), whole)


def _at(texts: list[str], rows: np.ndarray) -> list[str]:
    return [texts[row] for row in rows.tolist()]


def _best(one: _Set, scores: np.ndarray) -> tuple[Threshold, np.ndarray, np.ndarray]:
    return best_one_to_one(one.pairs.candidates, scores, one.correct, one.rows, one.gold)
