"""The probability that a pair is a translation: a logistic regression on its features."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from mexma_cli.classifier.calibration import shift_of, shifted
from mexma_cli.classifier.features import FEATURES, Needs, Spread, columns, spread_of
from mexma_cli.classifier.pairs import Pairs, Side
from mexma_cli.classifier.words import VOCABULARY
from mexma_cli.errors import MexmaError
from mexma_cli.knn.neighbours import Neighbours
from mexma_cli.mining.candidates import Candidates, PairSpool, SortedPairs
from mexma_cli.mining.lists import Sides
from mexma_cli.mining.match import match, taken_of
from mexma_cli.store.spool import parts

WEIGHTS = Path(__file__).with_name("weights.json")
"""Those that come with the package: one classifier for each of `Needs`."""
_AT_ONCE = 1 << 15
_IMPOSSIBLE = 0.002
"""Below this probability without words, a pair's words do not make it a translation; four fifths of all
candidates are, and words cost the most."""
_HELD, _WORD_BYTES = 250 << 20, 200
_WITH: dict[Needs, tuple[Needs, ...]] = {
    "vectors": ("vectors",),
    "text": ("vectors", "text"),
    "words": ("vectors", "text", "words"),
}


def features_for(needs: Needs) -> tuple[str, ...]:
    """The names of the features that can be had where so much is known of two texts."""
    return tuple(name for name, one in FEATURES.items() if one.needs in _WITH[needs])


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
    """

    features: tuple[str, ...]
    means: tuple[float, ...]
    scales: tuple[float, ...]
    coefficients: tuple[float, ...]
    intercept: float
    screen: Classifier | None = None

    def scored(self, pairs: Pairs, wanted: Pairs | None = None) -> Iterator[Candidates]:
        """Candidates, in blocks, with their probabilities as scores.

        Args:
            pairs: All candidates of two texts, sorted by margin, best first, so that the texts themselves say
                what is usual in them.
            wanted: Those that are judged; None: all.
        """
        wanted = pairs if wanted is None else wanted
        known = self.screen.features if self.screen else ()
        spread = spread_of(pairs, tuple(dict.fromkeys(known + self.features)))
        for part in parts(len(wanted), _AT_ONCE):
            some = wanted.take(part)
            yield replace(some.candidates, scores=self._of_pairs(some, spread))

    def _of_pairs(self, pairs: Pairs, spread: Spread) -> np.ndarray:
        """Probabilities, float32 [N]."""
        if self.screen is None:
            return self.of(columns(pairs, self.features, spread))
        found = self.screen.of(columns(pairs, self.screen.features, spread))
        possible = np.flatnonzero(found > _IMPOSSIBLE)
        found[possible] = self.of(columns(pairs.take(possible), self.features, spread))
        return found

    def of(self, values: np.ndarray) -> np.ndarray:
        """float32 [N], from features float32 [N, features]."""
        standard = (values - np.array(self.means)) / np.array(self.scales)
        logit = standard @ np.array(self.coefficients) + self.intercept
        return (1 / (1 + np.exp(-logit.clip(-50, 50)))).astype(np.float32)


def bytes_for(rows: int) -> int:
    """Bytes of memory that `probable` takes for so many rows of both sides, without mapped files: the encoder
    of words, a block of candidates, and every different word of both texts."""
    return _HELD + _WORD_BYTES * min(2 * rows, 2 * VOCABULARY)


def probable(classifier: Classifier, neighbours: Neighbours | Sides, sides: tuple[Side, Side]) -> Candidates:
    """The most probable pairs, best first, each row in one pair at most; their scores are probabilities.

    Every neighbour of every row is a candidate. Probabilities fit the share of translations in these texts.

    Raises:
        MexmaError: The temporary disk is full, or a file of neighbours is damaged.
    """
    found = SortedPairs()
    for some in classifier.scored(Pairs(match(neighbours, "ratio", "all"), sides)):
        found.add(some)
    taken, result = taken_of(found, "max", (sides[0].lists.count, sides[1].lists.count)), PairSpool()
    shift = shift_of(taken.scores[part] for part in parts(len(taken), _AT_ONCE))
    for part in parts(len(taken), _AT_ONCE):
        some = taken.take(part)
        result.write(replace(some, scores=shifted(some.scores, shift)))
    return result.pairs()


def read_classifiers(path: Path = WEIGHTS) -> dict[str, Classifier]:
    """The classifiers of a file of weights, by what they need.

    Raises:
        MexmaError: It is no such file, or has a feature that is not known.
    """
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        found = {}
        for needs, one in content["classifiers"].items():
            rows: Sequence[dict[str, Any]] = one["features"]
            names = tuple(str(row["name"]) for row in rows)
            mean, scale, coefficient = (
                tuple(float(row[key]) for row in rows) for key in ("mean", "scale", "coefficient")
            )
            found[needs] = Classifier(names, mean, scale, coefficient, float(one["intercept"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise MexmaError(f"{path} is no file of a classifier's weights: {error}") from None
    if "words" in found and "text" in found:
        found["words"] = replace(found["words"], screen=found["text"])
    unknown = [name for one in found.values() for name in one.features if name not in FEATURES]
    if unknown:
        raise MexmaError(
            f"{path} has a feature {unknown[0]!r}, which nobody has registered",
            "register it as it was for training",
        )
    return found


def write_classifiers(path: Path, classifiers: dict[str, Classifier], about: str) -> None:
    """Write a file of weights."""
    content: dict[str, Any] = {"about": about, "classifiers": {}}
    for needs, one in classifiers.items():
        rows = zip(one.features, one.means, one.scales, one.coefficients, strict=True)
        content["classifiers"][needs] = {
            "intercept": round(one.intercept, 5),
            "features": [
                {"name": name, "mean": round(a, 5), "scale": round(b, 5), "coefficient": round(c, 5)}
                for name, a, b, c in rows
            ],
        }
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


@cache
def bundled() -> dict[str, Classifier]:
    """The classifiers that come with the package, by what they need."""
    return read_classifiers()
