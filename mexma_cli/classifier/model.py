"""The probability that a pair is a translation: a logistic regression on its features."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from mexma_cli.classifier.features import FEATURES, Needs, columns, spread_of
from mexma_cli.classifier.pairs import Pairs
from mexma_cli.errors import MexmaError
from mexma_cli.mining.match import Candidates, Matching, best_first

WEIGHTS = Path(__file__).with_name("weights.json")
"""Those that come with the package: one classifier for each of `Needs`."""
_AT_ONCE = 1 << 15
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
    """

    features: tuple[str, ...]
    means: tuple[float, ...]
    scales: tuple[float, ...]
    coefficients: tuple[float, ...]
    intercept: float

    def probabilities(self, pairs: Pairs) -> np.ndarray:
        """float32 [N], of all candidates of two texts, sorted by margin, best first, so that the texts
        themselves say what is usual in them."""
        spread = spread_of(pairs, self.features)
        found = np.empty(len(pairs), np.float32)
        for start in range(0, len(pairs), _AT_ONCE):
            part = slice(start, start + _AT_ONCE)
            found[part] = self.of(columns(pairs.take(part), self.features, spread))
        return found

    def of(self, values: np.ndarray) -> np.ndarray:
        """float32 [N], from features float32 [N, features]."""
        standard = (values - np.array(self.means)) / np.array(self.scales)
        logit = standard @ np.array(self.coefficients) + self.intercept
        return (1 / (1 + np.exp(-logit.clip(-50, 50)))).astype(np.float32)


def one_to_one(pairs: Pairs, probabilities: np.ndarray) -> Candidates:
    """The most probable pairs, best first, each row in one pair at most; their scores are probabilities."""
    found = pairs.candidates
    scored = best_first(Candidates(probabilities, found.source, found.target, found.cosines))
    rows = len(pairs.sides[0].ids), len(pairs.sides[1].ids)
    return scored.take(Matching("max", rows).taken(scored))


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
