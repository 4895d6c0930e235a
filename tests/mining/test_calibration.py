from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mexma_cli.errors import MexmaError
from mexma_cli.mining.calibration import FEWEST, CalibrationCurve, PlantedScores, held_out


def found(right: list[float], wrong: list[float], others: list[float], planted: int) -> PlantedScores:
    return PlantedScores(
        np.array(right),
        np.arange(len(right)),
        np.array(wrong),
        np.arange(len(wrong)) % planted,
        np.array(others),
        planted,
    )


# 40 planted pairs come back, half of them above 1.4. The text has 100 translations, as many above 1.4, and
# 60 wrong pairs below.
BY_HAND = found([1.5] * 20 + [1.3] * 20, [1.3] * 10, [1.5] * 50 + [1.3] * 110, 40)


def test_worked_out_by_hand() -> None:
    curve = CalibrationCurve(BY_HAND)
    assert curve.translations == 100  # 50 * 40 / 20; further down 160 * 40 / 50 = 128
    top, all_of_it = curve.cut(0), curve.cut(1)
    assert (top.threshold, top.found, top.wrong, top.others, top.right) == (1.4, 20, 0, 50, 50)
    assert (top.precision, top.recall, top.f1, top.planted_precision) == (1, 0.5, 2 / 3, 1)
    assert (all_of_it.found, all_of_it.wrong, all_of_it.others, all_of_it.right) == (40, 10, 160, 100)
    assert (all_of_it.precision, all_of_it.recall, all_of_it.planted_precision) == (0.625, 1, 0.8)
    assert all_of_it.f1 == pytest.approx(200 / 260)  # 2 * 100 / (160 + 100)
    assert curve.choose() == 1 and curve.choose(0.625) == 1 and curve.choose(0.63) == 0
    assert curve.ladder([0.25, 0.5, 0.51, 1]) == [0, 1]


def test_precision_is_never_above_that_of_the_planted() -> None:
    curve = CalibrationCurve(found([1.5] * 20, [1.6, 1.5], [1.5] * 44, 25))
    best = curve.cut(curve.choose())
    assert best.translations == 50  # 44 * 25 / 22
    assert best.precision == pytest.approx(20 / 22) and best.planted_precision == pytest.approx(20 / 22)
    with pytest.raises(MexmaError, match=r"99\.00 %: the highest is about 90\.91 %, above 1\.49"):
        curve.choose(0.99)
    with pytest.raises(MexmaError, match=r"the highest is about 0\.66 %") as caught:
        CalibrationCurve(found([1.5] * 20, [1.6] * 3000, [1.5] * 4000, 25)).choose(0.99)
    assert caught.value.hint is None  # --precision 0 is none


@settings(max_examples=200)
@given(
    right=st.lists(st.integers(0, 9), min_size=FEWEST, max_size=30),
    wrong=st.lists(st.integers(0, 9), max_size=10),
    others=st.lists(st.integers(0, 9), min_size=30, max_size=60),
)
def test_no_cut_is_better(right: list[int], wrong: list[int], others: list[int]) -> None:
    curve = CalibrationCurve(
        found([float(x) for x in right], [float(x) for x in wrong], [float(x) for x in others], 30)
    )
    cuts = []
    for low in sorted({*right, *wrong}):
        kept, bad, rest = (sum(x >= low for x in scores) for scores in (right, wrong, others))
        share = min(curve.translations * kept / 30, rest * kept / max(kept + bad, 1))
        cuts.append((low, rest, share, 2 * share / (rest + curve.translations)))
    lowest = min([*right, *wrong])
    if curve.translations < 1 or max(others) < lowest:  # the text's pairs are all below the planted ones
        with pytest.raises(MexmaError, match="no translations"):
            curve.choose()
        return
    chosen = curve.cut(curve.choose())
    assert chosen.f1 == pytest.approx(max(f1 for *_, f1 in cuts))
    assert chosen.others == sum(x > chosen.threshold for x in others)
    for wanted in (0.2, 0.5):
        enough = [low for low, rest, share, _ in cuts if share >= 1 and share / rest >= wanted]
        if enough:
            loosest = curve.cut(curve.choose(wanted))
            assert loosest.others == sum(x >= min(enough) for x in others)


def test_half_way_to_the_next_score_of_any_pair() -> None:
    curve = CalibrationCurve(found([3.0] * 20 + [1.0], [2.0], [5.0, 2.5, 2.5, 0.5], 30))
    assert [curve.threshold(place) for place in range(3)] == [2.75, 1.5, 0.75]
    assert [curve.cut(place).others for place in range(3)] == [1, 3, 3]
    assert CalibrationCurve(found([3.0] * 20, [], [4.0], 30)).threshold(0) == pytest.approx(3 - 1e-6)


def drawn(
    seed: int, planted: int = 800, translations: int = 1500, lines: int = 12000
) -> tuple[PlantedScores, np.ndarray]:
    """Scores of text with few translations among its lines, and which of its pairs are right."""
    rng = np.random.default_rng(seed)
    is_right = np.arange(lines) < translations
    others = np.where(is_right, rng.normal(1.25, 0.1, lines), rng.normal(1.0, 0.06, lines))
    right = rng.normal(1.25, 0.1, planted)
    came_back = rng.random(planted) < 0.9
    others = np.where(is_right & (rng.random(lines) > 0.9), rng.normal(1.0, 0.06, lines), others)
    wrong = rng.normal(1.0, 0.06, 2 * int((~came_back).sum()))
    which = np.flatnonzero(came_back)
    return PlantedScores(
        right[came_back], which, wrong, np.repeat(np.flatnonzero(~came_back), 2), others, planted
    ), is_right


def test_the_estimate_is_near_the_truth_where_the_planted_precision_is_not() -> None:
    inside = 0
    for seed in range(10):
        sample, is_right = drawn(seed)
        curve = CalibrationCurve(sample)
        assert curve.translations == pytest.approx(1500, rel=0.2)
        place = curve.choose()
        cut = curve.cut(place)
        kept = sample.others > cut.threshold
        truth = (kept & is_right).sum() / kept.sum()
        assert cut.precision == pytest.approx(truth, abs=0.15)
        low, high = curve.bootstrap(place, resamples=200).precision
        inside += low <= truth <= high
        loose = curve.measured(1.0)
        truth = (is_right & (sample.others > 1.0)).sum() / (sample.others > 1.0).sum()
        assert truth < 0.25 and loose.precision == pytest.approx(truth, abs=0.05)
        assert loose.planted_precision > 0.85
    assert inside >= 7


def test_intervals() -> None:
    curve = CalibrationCurve(drawn(0)[0])
    place = curve.choose()
    cut, intervals = curve.cut(place), curve.bootstrap(place)
    assert intervals == curve.bootstrap(place)
    low, high = intervals.recall
    assert (high - low) / 2 == pytest.approx(1.96 * (cut.recall * (1 - cut.recall) / 800) ** 0.5, rel=0.12)
    for interval, value in ((intervals.threshold, cut.threshold), (intervals.f1, cut.f1)):
        assert interval[0] < value < interval[1]


def test_held_out_uses_other_planted_pairs() -> None:
    sample, _ = drawn(1)
    half = held_out(sample)
    assert half is not None and half.planted == 400 and half.others == (sample.others > half.threshold).sum()
    assert half == held_out(sample)
    kept = sample.right > half.threshold
    assert 0 < half.found < kept.sum() and half.f1 == pytest.approx(
        CalibrationCurve(sample).measured(half.threshold).f1, abs=0.08
    )
    assert held_out(found([1.5] * 100, [], [1.5] * 50, 100)) is not None
    assert held_out(found([1.5] * 99, [], [1.5] * 50, 99)) is None  # too few were planted
    assert held_out(found([1.5] * 30, [], [1.5] * 50, 100)) is None  # fifteen in a half are too few


def test_what_cannot_be_measured_is_refused() -> None:
    with pytest.raises(
        MexmaError, match="19 of 30 planted pairs came back; at least 20 are needed to measure with"
    ):
        CalibrationCurve(found([1.0] * 19, [], [1.0] * 50, 30))
    with pytest.raises(MexmaError, match="it seems to hold no translations"):
        CalibrationCurve(found([1.0] * 30, [], [], 30)).choose()
