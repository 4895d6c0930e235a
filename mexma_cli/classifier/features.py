"""The features of a pair. A new one is a function under `@feature`; training and weights know its name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from mexma_cli.classifier.calibration import shift_of, shifted
from mexma_cli.classifier.pairs import Pairs, sentences_of
from mexma_cli.classifier.sentences import MARKS
from mexma_cli.errors import MexmaError
from mexma_cli.mining.retrieval import OneToOne
from mexma_cli.settings.registry import line_of_error, run_plugin

Measure = Callable[[Pairs], np.ndarray]
"""From N candidates to float32 [N]."""
Needs = Literal["vectors", "text", "words"]

_LOOKED_AT, _ROUNDS = 2000, 2
"""So many pairs at most say what is usual in translations of two texts, and so often that is estimated."""
_FIRST, _LEAST = 50, 7
"""At first the best of so many pairs is a translation; so many pairs are one whatever their probability."""
_COPY = 0.999  # cosine from which both sides of a pair are as good as the same
_MAD = 1.4826  # the standard deviation of normally distributed values by their median absolute deviation


@dataclass(frozen=True)
class Feature:
    """A number of a pair.

    Attributes:
        against: What it is compared with, so that it means the same in all languages and with all encoders.
            usual: the translations of the two texts, as a z-score (median and spread); rivals: the same with
            the second neighbours of all rows; gap: 0 is the median of the second neighbours, 1 that of the
            translations. "": nothing.
        floor: The least spread.
        shape: What is done with it afterwards.
        module: Of a user's own, the file that registers it; it sees the sentences. "": one of these here.
    """

    name: str
    about: str
    needs: Needs
    measure: Measure
    against: Literal["", "usual", "rivals", "gap"] = ""
    floor: float = 1e-3
    shape: Callable[[np.ndarray], np.ndarray] | None = None
    module: str = ""


FEATURES: dict[str, Feature] = {}
"""By name, in the order in which they are registered."""


def feature(
    name: str,
    about: str,
    needs: Needs = "text",
    against: Literal["", "usual", "rivals", "gap"] = "",
    floor: float = 1e-3,
    shape: Callable[[np.ndarray], np.ndarray] | None = None,
) -> Callable[[Measure], Measure]:
    """Register a measure as a feature; see `Feature`."""

    def register(measure: Measure) -> Measure:
        if name in FEATURES:
            raise ValueError(f"there is a feature {name!r} already")
        FEATURES[name] = Feature(name, about, needs, measure, against, floor, shape)
        return measure

    return register


OfSentences = Callable[[list[str], list[str], tuple[str, str]], Any]
"""From N sentences of the source and N of the target, and the languages of both, to N numbers."""


def pair_feature(name: str, about: str) -> Callable[[OfSentences], OfSentences]:
    """Register a function of one's own as a feature of pairs, in a file for `--plugin`.

    It is called for blocks of pairs: with the sentences of both sides and their FLORES-200 codes. Only a
    classifier that was trained with it uses it, and only for pairs that are possible by the other features.

    Raises:
        MexmaError: There is a feature of this name.
    """

    def register(function: OfSentences) -> OfSentences:
        def measure(pairs: Pairs) -> np.ndarray:
            return measured_feature(name, function, *pairs.texts, pairs.languages)

        if name in FEATURES:
            raise MexmaError(f"there is a feature {name!r} already")
        FEATURES[name] = Feature(name, about, "words", measure, module=function.__module__)
        _OWN[name] = function
        return function

    return register


_OWN: dict[str, OfSentences] = {}


def load_features(path: Path) -> dict[str, OfSentences]:
    """Run a file that registers features of one's own, as `run_plugin` does; by their names."""
    how = 'above a function of sources, targets, languages: @pair_feature("NAME", "what it is")'
    run_plugin(path, FEATURES, lambda one: one.module, "feature of pairs", how)
    return {name: _OWN[name] for name, one in FEATURES.items() if one.module == str(path.resolve())}


def measured_feature(
    name: str, function: OfSentences, sources: list[str], targets: list[str], languages: tuple[str, str]
) -> np.ndarray:
    """The values of a feature of one's own for N pairs, float32 [N]; refused if it fails, or gives something
    else than N numbers."""
    if not sources:
        return np.zeros(0, np.float32)
    try:
        found = np.asarray(function(sources, targets, languages), np.float32)
    except Exception as error:
        said, file = " ".join(str(error).split()), function.__module__
        where = f"{Path(file).name}{line_of_error(error, file)}"
        raise MexmaError(f"feature {name!r} ({where}): {type(error).__name__}: {said}") from error
    if found.shape != (len(sources),) or not np.isfinite(found).all():
        wrong = "numbers that are none" if found.shape == (len(sources),) else f"an array {found.shape}"
        raise MexmaError(f"feature {name!r} gives {wrong} for {len(sources)} pairs", "one number a pair")
    return found


@dataclass(frozen=True)
class Level:
    """Median and spread of a measure, of the translations of two texts and of second neighbours."""

    usual: float
    usual_spread: float
    rivals: float
    rivals_spread: float


Spread = dict[str, Level]
"""The levels that measures of two texts are compared with, by feature."""


def spread_of(
    pairs: Pairs, names: tuple[str, ...], right: np.ndarray | Callable[[Pairs, Spread], np.ndarray]
) -> Spread:
    """The levels that features are compared with in two texts: those of all translations, since the best of
    many look otherwise than the best of few.

    Where the translations are not known, the best pairs by margin are at first; then each pair counts as
    much as it is probable by the levels before. Candidates that were not taken then say how much wrong
    pairs look like translations here.

    Copies, such as numbers of sections and pages, do not count: their margins are the best, and lengths and
    words the same, so that beside them translations would look unlike translations.

    Args:
        pairs: All candidates, sorted by margin, best first. They are not all looked at.
        right: Which of them are translations, bool [N], or gives the probabilities of some, float [n].
    """
    found, (source, target) = pairs.candidates, pairs.sides
    best = OneToOne((source.lists.count, target.lists.count)).taken(found)
    taken, rest = _some(np.flatnonzero(best)), pairs.take(_some(np.flatnonzero(~best)))
    different = taken[found.cosines[taken] < _COPY]
    taken = different if len(different) >= _LEAST else taken
    second = np.flatnonzero(pairs.ranks[0] == 2)
    of_second = pairs.take(second if len(second) else np.arange(len(found)))
    compared = [FEATURES[name] for name in names if FEATURES[name].against]
    alike = np.ones(len(of_second))
    rivals = {
        one.name: _middle(one.measure(of_second), alike, one.floor)
        for one in compared
        if one.against != "usual"
    }
    some = pairs.take(taken)
    measures = {one.name: one.measure(some) for one in compared}

    def levels(weights: np.ndarray) -> Spread:
        middles = {one.name: _middle(measures[one.name], weights, one.floor) for one in compared}
        return {name: Level(*middle, *rivals.get(name, middle)) for name, middle in middles.items()}

    if isinstance(right, np.ndarray):
        return levels(right[taken].astype(np.float64))
    weights = (np.arange(len(taken)) < max(_LEAST, len(taken) // _FIRST)).astype(np.float64)
    each = np.count_nonzero(~best) / max(len(rest), 1) / sentences_of(pairs.sides)
    for _ in range(_ROUNDS):
        level = levels(weights)
        chances, others = right(some, level), float(right(rest, level).sum(dtype=np.float64))
        weights = shifted(chances, shift_of([chances], others * each)).astype(np.float64)
        weights[np.argsort(-weights, kind="stable")[:_LEAST]] = 1
    return levels(weights)


def _some(places: np.ndarray) -> np.ndarray:
    """At most `_LOOKED_AT` of these places, evenly spread."""
    return places[np.linspace(0, len(places) - 1, min(_LOOKED_AT, len(places))).astype(np.int64)]


def _middle(values: np.ndarray, weights: np.ndarray, floor: float) -> tuple[float, float]:
    """The median of some values, each of which counts so much, and their spread."""
    total = weights.sum()
    if not total:
        return 0.0, 1.0
    median = _median(values, weights)
    spread = _MAD * _median(abs(values - median), weights)
    mean = (weights * values).sum() / total
    deviation = float(np.sqrt((weights * (values - mean) ** 2).sum() / total))
    return median, max(spread, deviation / 2, floor)


def _median(values: np.ndarray, weights: np.ndarray) -> float:
    order = np.argsort(values, kind="stable")
    sums = np.cumsum(weights[order])
    return float(values[order[np.searchsorted(sums, sums[-1] / 2)]])


def columns(pairs: Pairs, names: tuple[str, ...], spread: Spread) -> np.ndarray:
    """The features of N pairs, float32 [N, features]."""
    result = np.empty((len(pairs), len(names)), np.float32)
    for place, name in enumerate(names):
        one = FEATURES[name]
        values = one.measure(pairs)
        if one.against:
            level = spread[name]
            if one.against == "usual":
                values = (values - level.usual) / level.usual_spread
            elif one.against == "rivals":
                values = (values - level.rivals) / level.rivals_spread
            else:
                values = (values - level.rivals) / max(level.usual - level.rivals, one.floor)
        result[:, place] = one.shape(values) if one.shape else values
    return result


def _far(most: float) -> Callable[[np.ndarray], np.ndarray]:
    return lambda values: np.minimum(abs(values), most)


def _between(low: float, high: float) -> Callable[[np.ndarray], np.ndarray]:
    return lambda values: values.clip(low, high)


@feature("margin", "ratio margin above that of second neighbours, in their spreads", "vectors", "rivals")
def _margin(pairs: Pairs) -> np.ndarray:
    return pairs.margins


@feature(
    "source rival",
    "margin above the source's next neighbour",
    "vectors",
    "gap",
    shape=_between(-2, 3),
)
def _source_rival(pairs: Pairs) -> np.ndarray:
    return pairs.rivals[0]


@feature(
    "target rival",
    "margin above the target's next neighbour",
    "vectors",
    "gap",
    shape=_between(-2, 3),
)
def _target_rival(pairs: Pairs) -> np.ndarray:
    return pairs.rivals[1]


@feature("source nearest", "whether the target is the source's nearest neighbour", "vectors")
def _source_nearest(pairs: Pairs) -> np.ndarray:
    return (pairs.ranks[0] == 1).astype(np.float32)


@feature("target nearest", "whether the source is the target's nearest neighbour", "vectors")
def _target_nearest(pairs: Pairs) -> np.ndarray:
    return (pairs.ranks[1] == 1).astype(np.float32)


@feature(
    "length",
    "the square of how far the ratio of lengths is from the translations'",
    against="usual",
    shape=lambda z: np.minimum(z * z, 30),
)
def _length(pairs: Pairs) -> np.ndarray:
    source, target = pairs.lengths
    return np.log((target + 5) / (source + 5))


@feature("shorter", "logarithm of the shorter side's characters")
def _shorter(pairs: Pairs) -> np.ndarray:
    return np.log1p(np.minimum(*pairs.lengths))


@feature("numbers differ", "numbers that one side alone has")
def _numbers(pairs: Pairs) -> np.ndarray:
    return np.log1p(sum(pairs.numbers))


@feature("numbers missing", "by how many numbers one side has more")
def _missing_numbers(pairs: Pairs) -> np.ndarray:
    return np.log1p(abs(pairs.numbers[0] - pairs.numbers[1]))


@feature(
    "source names missing",
    "names of the source that the target does not have",
    against="usual",
    floor=0.6,
    shape=_between(-6, 6),
)
def _source_names(pairs: Pairs) -> np.ndarray:
    return np.log1p(pairs.missing[0])


@feature(
    "target names missing",
    "names of the target that the source does not have",
    against="usual",
    floor=0.6,
    shape=_between(-6, 6),
)
def _target_names(pairs: Pairs) -> np.ndarray:
    return np.log1p(pairs.missing[1])


def _register_marks() -> None:
    for place, mark in enumerate(MARKS):

        def measure(pairs: Pairs, place: int = place) -> np.ndarray:
            own, other = (side.marks[:, place] for side in pairs.sentences)
            return own[pairs.candidates.source] - other[pairs.candidates.target]

        about = f"how far the difference of {mark} marks is from that of translations"
        feature(f"{mark} marks", about, against="usual", floor=0.5, shape=_far(5))(measure)


_register_marks()


@feature(
    "source words",
    "share, by rarity, of the source's words that have a counterpart in the target",
    "words",
    "usual",
    0.1,
    _between(-6, 6),
)
def _source_words(pairs: Pairs) -> np.ndarray:
    return pairs.words[:, 0]


@feature(
    "target words",
    "share, by rarity, of the target's words that have a counterpart in the source",
    "words",
    "usual",
    0.1,
    _between(-6, 6),
)
def _target_words(pairs: Pairs) -> np.ndarray:
    return pairs.words[:, 1]


@feature("order", "how far apart words and their counterparts are", "words", "usual", 0.05, _between(-6, 6))
def _order(pairs: Pairs) -> np.ndarray:
    return pairs.words[:, 2]


@feature(
    "rarity",
    "how far the ratio of both sides' rarity of words is from that of translations",
    "words",
    "usual",
    0.05,
    _far(6),
)
def _rarity(pairs: Pairs) -> np.ndarray:
    return np.log((pairs.words[:, 4] + 1) / (pairs.words[:, 3] + 1))
