from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mexma_cli.errors import MexmaError
from mexma_cli.mining.threshold import best_threshold, chosen_place, measured_threshold, unreachable

Scored = tuple[np.ndarray, np.ndarray, int]


@st.composite
def scored(draw: st.DrawFn) -> Scored:
    """Scores of candidates, which of them are gold pairs, and the number of gold pairs in all."""
    candidates = draw(st.lists(st.tuples(st.integers(-3, 12), st.booleans()), min_size=1, max_size=25))
    scores, is_gold = map(np.array, zip(*candidates, strict=True))
    total = int(is_gold.sum()) + draw(st.integers(0, 5))
    assume(total)
    return scores / 10, is_gold, total


@given(scored())
def test_no_cut_is_better(drawn: Scored) -> None:
    scores, is_gold, total = drawn
    found = best_threshold(scores, is_gold, total)

    def f1(kept: np.ndarray) -> float:
        return 2 * (kept & is_gold).sum() / (kept.sum() + total)

    cuts = {float(cut): f1(scores >= cut) for cut in scores}
    assert found.f1 == pytest.approx(max(cuts.values()))
    for kept in (scores > found.threshold, scores >= found.threshold):  # as `mine` cuts, as LASER cuts
        assert f1(kept) == pytest.approx(found.f1)
        assert kept.sum() == found.count and (kept & is_gold).sum() == found.correct
    if found.correct:
        assert found.precision == found.correct / found.count and found.recall == found.correct / total


def test_half_way_to_the_next_score() -> None:
    found = best_threshold(np.array([1.0, 3.0, 2.0]), np.array([False, True, True]), 2)
    assert (found.threshold, found.count, found.f1) == (1.5, 2, 1.0)


def test_the_optimum_may_be_the_last_candidate() -> None:
    found = best_threshold(np.array([1.5, 1.25]), np.array([True, True]), 2)
    assert found.count == 2 and 1.2499 < found.threshold < 1.25


def test_ties_are_not_cut_through() -> None:
    found = best_threshold(np.array([2.0, 1.0, 1.0, 0.5]), np.array([True, True, False, False]), 2)
    assert found.count in (1, 3) and found.f1 == pytest.approx(0.8)


def test_scores_nearer_than_six_decimals_are_still_separated() -> None:
    high, low = 1.00000012, 1.00000001
    found = best_threshold(np.array([high, low]), np.array([True, False]), 1)
    assert low < found.threshold < high


def test_a_threshold_next_to_zero_has_no_minus() -> None:
    found = best_threshold(np.array([3e-7, -4e-7]), np.array([True, False]), 1)  # by `distance`
    assert (str(found.threshold), found.count) == ("0.0", 1)


def test_below_a_score_that_is_larger_than_a_difference_shows() -> None:
    for score in (1e12, -1e12):
        scores, is_gold = np.array([2 * abs(score), score]), np.ones(2, dtype=bool)
        assert measured_threshold(scores, is_gold, 2, best_threshold(scores, is_gold, 2).threshold).count == 2


def test_of_equal_f1_the_higher_cut() -> None:
    found = best_threshold(np.array([4.0, 3.0, 2.0, 1.0]), np.array([True, False, False, True]), 2)
    assert found.count == 1


def test_nothing_to_tune_on_is_refused() -> None:
    with pytest.raises(ValueError, match="may be none"):
        best_threshold(np.array([1.0]), np.array([False]), 0)
    with pytest.raises(ValueError, match="may be none"):
        best_threshold(np.array([]), np.array([], bool), 1)


@given(scored(), st.sampled_from([0.05, 0.3, 0.5, 0.55, 0.7, 0.9, 1.0]))
def test_no_looser_cut_is_precise_enough(drawn: Scored, wanted: float) -> None:
    scores, is_gold, total = drawn
    cuts = {
        float(cut): Fraction(int((is_gold & (scores >= cut)).sum()), int((scores >= cut).sum()))
        for cut in scores
    }
    enough = [cut for cut, share in cuts.items() if share > 0 and share >= Fraction(str(wanted))]
    if not enough:
        with pytest.raises(MexmaError) as caught:
            best_threshold(scores, is_gold, total, wanted)
        assert f"the highest is {100 * float(max(cuts.values())):.2f} %" in caught.value.message
        return
    found = best_threshold(scores, is_gold, total, wanted)
    kept = scores > found.threshold
    assert (kept == (scores >= min(enough))).all()
    assert (found.count, found.correct) == (kept.sum(), (kept & is_gold).sum())
    assert found.precision >= wanted and found == measured_threshold(scores, is_gold, total, found.threshold)


def test_the_loosest_cut_may_lie_below_a_worse_one() -> None:
    scores, is_gold = np.array([5.0, 4.0, 3.0, 2.0, 1.0]), np.array([True, False, True, True, False])
    assert best_threshold(scores, is_gold, 3, 0.75).count == 4  # 1, 1/2, 2/3, 3/4, 3/5
    assert best_threshold(scores, is_gold, 3, 0.6).count == 5
    assert best_threshold(scores, is_gold, 3, 0.8).count == 1
    tied = np.array([5.0, 5.0, 3.0, 2.0, 1.0])
    with pytest.raises(MexmaError, match=r"80\.00 %: the highest is 75\.00 %, above 1\.5 \(3 of 4 pairs\)"):
        best_threshold(tied, is_gold, 3, 0.8)


def test_a_precision_that_is_nearly_reached_is_not_said_to_be() -> None:
    assert "100.00 %: the highest is 99.99 %, here" in unreachable(1.0, 0.999999, "here").message
    assert "95.00 %: the highest is 94.00 %, here" in unreachable(0.95, 0.94, "here").message


@pytest.mark.parametrize(
    ("right", "hint"),
    [(9, "hardly any of these pairs are translations"), (10, "ask for less, such as a precision of 0.1")],
)
def test_no_precision_is_advised_where_there_are_hardly_any_translations(right: int, hint: str) -> None:
    scores = np.repeat(2.0, 100)
    with pytest.raises(MexmaError, match=r"95\.00 %") as caught:
        best_threshold(scores, np.arange(100) < right, 100, 0.95)
    assert str(caught.value.hint).startswith(hint)


def test_a_precision_is_met_exactly() -> None:
    scores = np.arange(100, 0, -1.0)
    for correct in range(1, 101):
        assert (
            best_threshold(scores, np.arange(100) < correct, 100, float(f"{correct / 100:.2f}")).count == 100
        )


def test_what_keeps_nothing_has_no_precision() -> None:
    found = measured_threshold(np.array([1.0]), np.array([True]), 1, 2.0)
    assert (found.count, found.precision, found.recall, found.f1) == (0, 0.0, 0.0, 0.0)


def test_a_cut_may_keep_less_than_one_pair_that_is_expected_to_be_right() -> None:
    assert chosen_place(np.array([1, 2]), np.array([0.99, 1.2]), 10.0, 0.95) == 0
