"""The probability that a pair is a translation: a logistic regression on its features."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mexma_cli.classifier.calibration import recalibrated, shift_of, shifted
from mexma_cli.classifier.features import FEATURES, Needs, Spread, columns, spread_of
from mexma_cli.classifier.pairs import Pairs, TextFacts, sentences_of
from mexma_cli.classifier.precision import ALIKE, Errors
from mexma_cli.classifier.words import VOCABULARY
from mexma_cli.errors import MexmaError
from mexma_cli.files import read_json, write_json_atomic
from mexma_cli.knn.neighbours import Neighbours
from mexma_cli.mining.candidates import PAIR, Candidates
from mexma_cli.mining.lists import Sides
from mexma_cli.mining.match import match, taken_of
from mexma_cli.settings.stages import MineSettings
from mexma_cli.store.spool import Spool, slices_of

WEIGHTS = Path(__file__).with_name("weights.json")
"""The weights that come with the package: one classifier for each of `Needs`."""
_AT_ONCE = 1 << 15
_IMPOSSIBLE = 0.002
"""Below this probability without words, a pair's words do not make it a translation; four fifths of all
candidates are, and words cost the most."""
_POSSIBLE, _LIKELY = 0.05, 0.5
"""Probabilities, before they fit the texts, from which a candidate is possible, and likely."""
_HELD, _KEPT, _FILLING, _ROW, _WORD = 130_000_000, 300_000_000, 12_000, 2_000, 210
"""Bytes that judging takes at least, that the encoder keeps of words at most, by which a row fills that, that
a row takes besides, as long as it has new words, and that a different word takes."""
_WITH: dict[Needs, tuple[Needs, ...]] = {
    "vectors": ("vectors",),
    "text": ("vectors", "text"),
    "words": ("vectors", "text", "words"),
}


def features_for(needs: Needs) -> tuple[str, ...]:
    """The names of the features that can be had where so much is known of two texts."""
    return tuple(name for name, one in FEATURES.items() if one.needs in _WITH[needs])


_NUMBERS = "mean", "scale", "coefficient"
"""The fields of a feature in a file of weights."""


@dataclass(frozen=True)
class Classifier:
    """A logistic regression.

    Attributes:
        features: Their names.
        means, scales: What is taken from each feature, and what it is divided by then.
        coefficients: Of each feature.
        intercept: The logit where each feature has its mean.
        screen: A cheaper one, which judges pairs first: those that it finds nearly impossible keep its
            probability.
        answers: A user's answers make of a logit o that fits the texts: first number plus second times o.
    """

    features: tuple[str, ...]
    means: tuple[float, ...]
    scales: tuple[float, ...]
    coefficients: tuple[float, ...]
    intercept: float
    screen: Classifier | None = None
    answers: tuple[float, float] = (0.0, 1.0)

    @property
    def own(self) -> list[str]:
        """Features of the user's own."""
        return [name for name in self.features if FEATURES[name].module]

    def scored(self, pairs: Pairs, *wanted: Pairs) -> Iterator[Candidates]:
        """Candidates, in blocks, with their probabilities as scores.

        Args:
            pairs: All candidates of two texts, sorted by margin, best first, so that the texts themselves say
                what is usual in them.
            wanted: Those that are judged, one after the other; all if there are none.
        """
        known = self.screen.features if self.screen else ()
        spread = spread_of(pairs, tuple(dict.fromkeys(known + self.features)), self._of_pairs)
        for these in wanted or (pairs,):
            for part in slices_of(len(these), _AT_ONCE):
                some = these.take(part)
                yield replace(some.candidates, scores=self._of_pairs(some, spread))

    def _of_pairs(self, pairs: Pairs, spread: Spread) -> np.ndarray:
        """Probabilities, float32 [N]."""
        if self.screen is None:
            return self._unscreened(pairs, spread)
        found = self.screen._unscreened(pairs, spread)
        possible = np.flatnonzero(found > _IMPOSSIBLE)
        found[possible] = self._unscreened(pairs.take(possible), spread)
        return found

    def _unscreened(self, pairs: Pairs, spread: Spread) -> np.ndarray:
        return self.of(columns(pairs, self.features, spread))

    def of(self, values: np.ndarray) -> np.ndarray:
        """float32 [N], from features float32 [N, features]."""
        standard = (values - np.array(self.means)) / np.array(self.scales)
        logit = standard @ np.array(self.coefficients) + self.intercept
        return (1 / (1 + np.exp(-logit.clip(-50, 50)))).astype(np.float32)


def bytes_for(rows: int) -> int:
    """Bytes of memory that `probable` takes for so many rows of both sides: the encoder of words with those
    that it keeps, a block of candidates, and what is known of each sentence and word."""
    return _HELD + min(_FILLING * rows, _KEPT) + min(_ROW * rows, 2 * VOCABULARY * _WORD)


class Others(NamedTuple):
    """Candidates that were not taken: the sum of the probabilities of all, and a share of those that are
    possible, maybe among some that were taken."""

    total: float
    possible: Candidates
    share: float = 1.0


def probable(
    classifier: Classifier,
    neighbours: Neighbours | Sides,
    sides: tuple[TextFacts, TextFacts],
    settings: MineSettings,
) -> tuple[Candidates, Errors]:
    """The most probable pairs, best first, each row in one pair at most; their scores are probabilities.
    Every neighbour of every row is a candidate. Probabilities fit the share of translations in these
    texts, and have the errors."""
    total, possible = 0.0, Spool(PAIR)

    def scored() -> Iterator[Candidates]:
        nonlocal total
        for some in classifier.scored(Pairs(match(neighbours, MineSettings(retrieval="all")), sides)):
            total += float(some.scores.sum(dtype=np.float64))
            possible.write(some.take(some.scores > _POSSIBLE).records)
            yield some

    taken = taken_of(scored(), settings, (sides[0].lists.count, sides[1].lists.count))
    total -= float(taken.scores.sum(dtype=np.float64))
    others = Others(total, Candidates.of(possible.array()))
    fitted, errors = _fitted(classifier, taken, others, sides)
    return replace(taken, scores=fitted), errors


def probabilities_of(
    classifier: Classifier,
    neighbours: Neighbours | Sides,
    sides: tuple[TextFacts, TextFacts],
    given: Candidates,
    taken: bool = True,
) -> tuple[np.ndarray, Errors]:
    """The probability that each given pair is a translation, float32 [n], memory-mapped, and the errors.

    The neighbours of all rows say first what is usual in the two texts, then the given pairs are judged, as
    `probable` judges candidates, and so are some of the other candidates.

    Args:
        taken: The pairs were taken of all candidates. Those of a bitext were not: where lines are misplaced,
            other candidates are the translations, and say nothing of wrong pairs.

    Raises:
        MexmaError: The temporary disk is full, or a file of neighbours is damaged.
    """
    every, found = Pairs(match(neighbours, MineSettings(retrieval="all")), sides), Spool(np.float32)
    wanted, total, share = [Pairs(given, sides)], 0.0, 1.0
    if taken and len(every):
        count = min(len(every), _AT_ONCE)
        some, share = every.take(np.linspace(0, len(every) - 1, count).astype(np.int64)), count / len(every)
        wanted.append(some.take(~_among(some.candidates, given, sides[1].lists.count)))
    possible = Spool(PAIR)
    for judged in classifier.scored(every, *wanted):
        if found.rows < len(given):
            found.write(judged.scores)
        else:
            total += float(judged.scores.sum(dtype=np.float64))
            possible.write(judged.take(judged.scores > _POSSIBLE).records)
    others = Others(total / share, Candidates.of(possible.array()), share)
    return _fitted(classifier, replace(given, scores=found.array()), others, sides)


def _among(some: Candidates, given: Candidates, targets: int) -> np.ndarray:
    """Which of some candidates are among given pairs, bool [n]."""
    found, keys = np.zeros(len(some), bool), some.source * targets + some.target
    for part in slices_of(len(given), _AT_ONCE):
        found |= np.isin(keys, given.source[part] * targets + given.target[part])
    return found


def _fitted(
    classifier: Classifier, taken: Candidates, others: Others, sides: tuple[TextFacts, TextFacts]
) -> tuple[np.ndarray, Errors]:
    """The probabilities of pairs, fitted to these texts (`shift_of`) and to the user's answers, float32 [n],
    memory-mapped; and their errors."""
    expected = max(float(taken.scores.sum(dtype=np.float64)), 1e-9)
    possible, likely = _kinds_of(others, taken, sides)
    wrong_sum = others.total - max(likely - ALIKE * expected, 0)
    blocks = (taken.scores[part] for part in slices_of(len(taken), _AT_ONCE))
    shift, found, wrong = shift_of(blocks, wrong_sum / sentences_of(sides)), Spool(np.float32), 0.0
    for part in slices_of(len(taken), _AT_ONCE):
        fitted = recalibrated(shifted(taken.scores[part], shift), *classifier.answers)
        wrong += float((1 - fitted[fitted > _LIKELY]).sum(dtype=np.float64))
        found.write(fitted)
    return found.array(), Errors.of(wrong, possible, likely / expected)


def _kinds_of(others: Others, taken: Candidates, sides: tuple[TextFacts, TextFacts]) -> tuple[float, float]:
    """How many of the others are possible though neither of their rows is in a likely pair, and one more; and
    the sum of the probabilities of likely ones, which are translations where lines are nearly equal."""
    best = [np.zeros(side.lists.count, np.float32) for side in sides]
    for part in slices_of(len(taken), _AT_ONCE):
        some = taken.take(part)
        for of_side, rows in zip(best, (some.source, some.target), strict=True):
            np.maximum.at(of_side, rows, some.scores)
    possible, likely = 1, 0.0
    for part in slices_of(len(others.possible), _AT_ONCE):
        some = others.possible.take(part)
        own, other = best[0][some.source], best[1][some.target]
        left = (own != some.scores) | (other != some.scores)
        possible += np.count_nonzero(left & (np.maximum(own, other) <= _LIKELY))
        likely += float(some.scores[left & (some.scores > _LIKELY)].sum(dtype=np.float64))
    return possible / others.share, likely / others.share


@dataclass(frozen=True)
class ClassifierWeights:
    """Classifiers, and the encoder whose vectors they were trained with.

    Attributes:
        about: Where they come from.
        encoder, fingerprint, dim: Of the stores.
        by: The classifiers by what they need.
    """

    about: str
    encoder: str
    fingerprint: str
    dim: int
    by: dict[str, Classifier]

    @classmethod
    def read(cls, path: Path = WEIGHTS) -> ClassifierWeights:
        """Read a file of weights; refused if it is none, or has a feature that is not known."""
        found = {}
        try:
            content = read_json(path)
            of = (
                str(content["about"]),
                str(content["encoder"]),
                str(content["fingerprint"]),
                int(content["dim"]),
            )
            for needs, one in content["classifiers"].items():
                rows: Sequence[dict[str, Any]] = one["features"]
                names = tuple(str(row["name"]) for row in rows)
                mean, scale, coefficient = (tuple(float(row[key]) for row in rows) for key in _NUMBERS)
                intercept = float(one["intercept"])
                if not np.isfinite([*mean, *scale, *coefficient, intercept]).all() or 0 in scale:
                    raise ValueError(f"a number of {needs!r} is none, or a scale is 0")
                first, second = (float(value) for value in one.get("answers", (0, 1)))
                if not (np.isfinite(first) and 0 < second < np.inf):
                    raise ValueError(f"the answers of {needs!r} turn the order of pairs round")
                found[needs] = Classifier(names, mean, scale, coefficient, intercept, answers=(first, second))
            text = found["text"]
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
            raise MexmaError(
                f"{path} is no file of a classifier's weights: {error}",
                "`mexma classifier train` writes them",
            ) from None
        if "words" in found:
            found["words"] = replace(found["words"], screen=text)
        unknown = [name for one in found.values() for name in one.features if name not in FEATURES]
        if unknown:
            raise MexmaError(
                f"{path} has a feature {unknown[0]!r}, which nobody has registered",
                "name the file that registers it, as for training: --plugin FILE",
            )
        return cls(*of, found)

    def write(self, path: Path) -> None:
        """Write a file of weights, whole."""
        content: dict[str, Any] = vars(self) | {"classifiers": {}}
        for needs, one in content.pop("by").items():
            rows = zip(one.features, one.means, one.scales, one.coefficients, strict=True)
            content["classifiers"][needs] = {
                "intercept": round(one.intercept, 5),
                "features": [
                    {"name": name}
                    | {key: float(f"{value:.6g}") for key, value in zip(_NUMBERS, of, strict=True)}
                    for name, *of in rows
                ],
            }
            if one.answers != (0.0, 1.0):
                content["classifiers"][needs]["answers"] = one.answers
        write_json_atomic(path, content)


@cache
def bundled_weights() -> ClassifierWeights:
    """The weights that come with the package."""
    return ClassifierWeights.read()
