from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mexma_cli.classifier import precision
from mexma_cli.classifier.precision import (
    Errors,
    PairPrecision,
    Translations,
    ascending,
    pairs_to_label,
    spread,
)
from mexma_cli.errors import MexmaError


def pairs(seed: int = 0, count: int = 3000) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores, best first, that tell little, the probabilities, and which pairs are right."""
    rng = np.random.default_rng(seed)
    logit = rng.normal(-1, 3, count)
    chance = (1 / (1 + np.exp(-logit))).astype(np.float32)
    scores = (logit + rng.normal(0, 1, count)).astype(np.float32)
    order = np.argsort(-scores)
    return scores[order], chance[order], (rng.random(count) < chance)[order]


@pytest.mark.parametrize("wanted", [0.8, 0.95])
def test_precision_is_the_mean_probability(wanted: float, monkeypatch: pytest.MonkeyPatch) -> None:
    scores, chance, right = pairs()
    monkeypatch.setattr(precision, "_AT_ONCE", 700)
    cut = PairPrecision(scores, chance).choose(wanted)
    above = scores > cut.threshold
    assert cut.count == above.sum() and wanted <= cut.precision < wanted + 0.01
    assert cut.precision == pytest.approx(chance[above].mean(), abs=0.003)
    assert cut.kept == pytest.approx(chance[above].sum() / chance.sum(), abs=0.003)
    low, high = cut.precision_interval
    assert low <= right[above].mean() <= high and low > 0.3


def test_the_best_f1_is_near_that_of_the_truth() -> None:
    scores, chance, right = pairs()
    counts = np.arange(1, len(scores) + 1)
    f1 = 2 * np.cumsum(right) / (counts + right.sum())
    assert f1[PairPrecision(scores, chance).choose().count - 1] > f1.max() - 0.005


def test_labels_correct_probabilities_that_are_too_high() -> None:
    scores, chance, right = pairs()
    odds = chance / (1 - chance) * np.exp(2)
    model = PairPrecision(scores, odds / (1 + odds))
    asked = pairs_to_label(model.probabilities, 60)
    assert len(set(asked.tolist())) == len(asked) > 40
    surer = model.labelled(asked, right[asked])
    for one in (model, surer):
        cut = one.choose(0.9)
        truth = right[scores > cut.threshold].mean()
        assert (abs(truth - 0.9) < 0.1) == (one is surer)
    assert cut.precision_interval[0] <= truth <= cut.precision_interval[1]
    assert abs(surer.probabilities.mean() - chance.mean()) < 0.1 < model.probabilities.mean() - chance.mean()


def test_how_many_are_translations() -> None:
    """Pairs of 0.8 may be wrong three times as often as they say; those of 0.1 are right a third as often."""
    chance = np.repeat(np.array([0.8, 0.1], np.float32), [10_000, 2000])
    low, high = PairPrecision(chance, chance).translations_interval
    error = 0.6 * 1.96
    for bound, sign in ((low, 1), (high, -1)):
        expected = 10_000 - 2000 * np.exp(sign * error) + 200 * np.exp(-sign * error)
        assert bound == pytest.approx(expected, rel=0.15)  # 1,000 draws
    some, chance, right = pairs()
    low, high = PairPrecision(some, chance).translations_interval
    assert 0.4 * right.sum() < low < right.sum() < high < 1.8 * right.sum()


def test_how_many_are_translations_is_none_to_all() -> None:
    """Where the estimate is bad, there are never fewer than none of the pairs, nor more than all."""
    unlikely = np.full(100, 0.02, np.float32)
    low, high = PairPrecision(unlikely, unlikely, Errors(0.6, 1.8)).translations_interval
    assert low == 0 and 50 < high <= 100


@pytest.mark.parametrize("least", [0.1, 0.5])
def test_the_pairs_above_a_threshold_have_one_interval(least: float) -> None:
    """Whether their precision is asked for, or how many of them are translations."""
    chance = np.repeat(np.array([0.95, 0.8, 0.4, 0.001], np.float32), [100, 50, 50, 1200])
    errors = Errors(1.2, 0.9)
    model = PairPrecision(chance, chance, errors)
    cut = model.cut(int(np.flatnonzero(model.thresholds > least)[-1]))
    assert cut.count == (200 if least == 0.1 else 150)
    found = Translations.among(chance[: cut.count], 0, errors)
    assert [found.low / cut.count, found.high / cut.count] == pytest.approx(cut.precision_interval)
    assert found.low < Translations.among(chance[: cut.count], 0, Errors()).low - 5


@pytest.mark.parametrize(
    ("levels", "counts", "dropped"),
    [
        ((0.95, 0.001), (100, 1000), True),
        ((0.999, 0.99), (100, 1000), False),  # the best of many
        ((0.97, 0.3), (1000, 60), False),  # 93 of 100 are right: a precision of 0.95 drops few others
        ((0.95, 0.6), (100, 1000), False),  # a threshold of 0.5 drops none
        ((0.95, 0.5), (100, 1000), True),
    ],
)
def test_a_threshold_is_advised_where_it_drops_most_of_the_others(
    levels: tuple[float, ...], counts: tuple[int, ...], dropped: bool
) -> None:
    chance = np.repeat(np.array(levels, np.float32), counts)
    found = Translations.among(chance, 3, Errors())
    assert found.others == pytest.approx(sum(counts) - found.expected)
    assert found.droppable == dropped


def test_few_pairs_say_little_of_how_many_are_translations() -> None:
    """One or two may be wrong where all seem to be right, and some may be right where none seem to be."""
    for count, fewest, most in ((30, 24, 28), (3000, 2970, 2995)):
        sure = np.full(count, 0.999, np.float32)
        low, high = PairPrecision(sure, sure).translations_interval
        assert fewest < low < most and count - 4 < high <= count
    low, high = PairPrecision(1 - sure[:30], 1 - sure[:30]).translations_interval
    assert low == 0 and 1 < high < 30


def test_as_many_may_be_wrong_as_other_candidates_are_possible() -> None:
    """Of 200 pairs, 180 of them right as expected, at least 137 are; where 21 others are possible, at least
    200 - 4.5 * 21; where 61 are, perhaps none."""
    some = np.full(200, 0.9, np.float32)
    models = [PairPrecision(some, some, Errors.of(20, possible, 0)) for possible in (1, 21, 61)]
    lows, highs = zip(*(model.translations_interval for model in models), strict=True)
    assert 130 < lows[0] < 145 and lows[1] == pytest.approx(200 - 4.5 * 21, abs=12) and lows[2] == 0
    assert max(highs) - min(highs) < 2 and {model.cut(0).right for model in models} == {models[0].right[-1]}
    assert models[1].cut(0).precision_interval[0] == pytest.approx(lows[1] / 200)


def test_more_may_be_right_where_lines_are_nearly_equal() -> None:
    some = np.repeat(np.array([0.9, 0.1], np.float32), 100)
    models = [PairPrecision(some, some, Errors.of(10, 1, alike)) for alike in (0, 0.02, 0.03, 0.5)]
    lows, highs = zip(*(model.translations_interval for model in models), strict=True)
    assert max(lows) - min(lows) < 2 and highs[0] == highs[1] < highs[2] - 10 < highs[3] - 20
    assert Errors.of(10, 20, 0.03).upwards == pytest.approx(Errors.of(10, 20, 0).upwards + np.log(1.5) / 1.96)


def test_a_low_end_that_is_hardly_above_0_is_0() -> None:
    some = np.full(100, 0.99, np.float32)
    models = [PairPrecision(some, some, Errors(upwards)) for upwards in np.linspace(2.2, 2.3, 30)]
    lows = [model.translations_interval[0] for model in models]
    assert lows[0] > 10 and lows[-1] == 0 and not [low for low in lows if 0 < low < 5]


def test_labels_say_how_many_are_translations() -> None:
    scores, chance, right = pairs()
    odds = chance / (1 - chance) * np.exp(2)
    model = PairPrecision(scores, odds / (1 + odds))
    asked = pairs_to_label(model.probabilities, 60)
    low, high = model.labelled(asked, right[asked]).translations_interval
    before = model.translations_interval
    assert low <= right.sum() <= high < before[1] and high - low < before[1] - before[0]


def test_a_precision_that_is_not_there() -> None:
    model = PairPrecision(np.array([2, 1], np.float32), np.array([0.5, 0.25], np.float32))
    assert [cut.count for cut in model.ladder((0.1, 1))] == [1, 2]
    with pytest.raises(MexmaError, match=r"the highest is about 50\.00 %, above 1\.5"):
        model.choose(0.9)


SCORES = st.lists(st.floats(-4, 4, width=32), min_size=1, max_size=30)


@given(scores=SCORES, most=st.integers(1, 12), size=st.integers(1, 9))
def test_some_distinct_scores_are_spread_over_all(scores: list[float], most: int, size: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(precision, "_AT_ONCE", size)
        rising = ascending(np.sort(np.array(scores, dtype=np.float32))[::-1])
        highest, lower = spread(rising, most)
    assert rising.tolist() == sorted(scores)
    distinct = sorted(set(scores), reverse=True)
    assert len(highest) == min(most, len(distinct)) and highest[0] == distinct[0]
    assert most == 1 or highest[-1] == distinct[-1]
    places = [distinct.index(score) for score in highest.tolist()]
    assert len(places) < 2 or np.ptp(np.diff(places)) <= 1
    assert lower.tolist() == [[*distinct, distinct[-1] - 1e-6][place + 1] for place in places]
