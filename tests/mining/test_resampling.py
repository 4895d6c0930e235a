from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mexma_cli.mining.resampling import Labelled, bootstrap, halves, held_out
from mexma_cli.mining.threshold import best_threshold, measured_threshold


def labelled(pairs: list[tuple[float, int, int]], gold: list[tuple[int, int]]) -> Labelled:
    """From (score, source, target) and gold (source, target), sentences being numbers."""
    scores, source, target = (np.array(column) for column in zip(*pairs, strict=True))

    def hashed(numbers: np.ndarray) -> np.ndarray:
        return numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)  # odd: one to one

    gold_array = np.array(gold)
    return Labelled(
        scores.astype(float),
        np.array([pair[1:] in gold for pair in pairs]),
        hashed(source),
        hashed(target),
        hashed(gold_array[:, 0]),
        hashed(gold_array[:, 1]),
    )


def independent(correct: int, wrong: int, missed: int, copies: int = 1) -> Labelled:
    """Candidates all of score 1; each source sentence has `copies` of them, with a gold pair each or none."""
    pairs = [(1.0, row, copies * row + copy) for row in range(correct + wrong) for copy in range(copies)]
    gold = [pair[1:] for pair in pairs if pair[1] < correct]
    return labelled(pairs, gold + [(10**6 + row, 10**7 + row) for row in range(missed)])


def half_width(share: float, count: int) -> float:
    return 1.96 * math.sqrt(share * (1 - share) / count)


def test_intervals_of_shares_are_as_wide_as_the_binomial_ones() -> None:
    pairs = independent(correct=300, wrong=100, missed=300)
    found = bootstrap(pairs, best_threshold(pairs.scores, pairs.is_gold, pairs.gold))
    for (low, high), share, count in ((found.precision, 0.75, 400), (found.recall, 0.5, 600)):
        assert (low + high) / 2 == pytest.approx(share, abs=0.006)
        assert (high - low) / 2 == pytest.approx(half_width(share, count), rel=0.12)
    assert found.f1[0] < 0.6 < found.f1[1]
    assert found.threshold[0] == found.threshold[1] < 1.0  # the only cut


def test_candidates_of_one_sentence_are_drawn_together() -> None:
    alone, four = independent(300, 100, 0), independent(300, 100, 0, copies=4)
    widths = []
    for pairs in (alone, four):
        low, high = bootstrap(pairs, best_threshold(pairs.scores, pairs.is_gold, pairs.gold)).precision
        widths.append(high - low)
    assert widths[0] == pytest.approx(widths[1], rel=0.1)  # four times the pairs, no more known than before


def test_the_interval_of_the_threshold_is_of_tuning_again() -> None:
    """By hand, on the very same draws: every resample is listed out and tuned with `best_threshold`."""
    rng = np.random.default_rng(3)
    rows = [(round(float(rng.normal(1 + 0.2 * (row < 30), 0.1)), 2), row, row) for row in range(60)]
    pairs = labelled(rows, [(row, row) for row in range(30)] + [(70, 70), (71, 71)])
    for precision in (None, 0.8):
        chosen = best_threshold(pairs.scores, pairs.is_gold, pairs.gold, precision)
        low, high = bootstrap(pairs, chosen, precision, resamples=400).threshold
        again, units = [], 62
        for _ in range(400):
            drawn = rng.integers(0, units, units)
            took = drawn[drawn < 60]
            total = int((took < 30).sum() + (drawn >= 60).sum())
            kept = best_threshold(pairs.scores[took], pairs.is_gold[took], total, precision).threshold
            again.append(kept)
        expected = np.quantile(again, [0.025, 0.975])
        assert low == pytest.approx(expected[0], abs=0.03) and high == pytest.approx(expected[1], abs=0.03)


def test_the_interval_covers_the_truth_as_often_as_it_says() -> None:
    rng, covered = np.random.default_rng(0), 0
    for _ in range(100):
        is_gold = rng.random(150) < 0.7
        pairs = independent(int(is_gold.sum()), int((~is_gold).sum()), 0)
        low, high = bootstrap(
            pairs, best_threshold(pairs.scores, pairs.is_gold, pairs.gold), resamples=200
        ).precision
        covered += low <= 0.7 <= high
    assert 88 <= covered <= 100


@pytest.mark.slow
def test_the_order_of_the_gold_pairs_does_not_matter_and_many_cuts_are_thinned() -> None:
    rng = np.random.default_rng(1)
    scores = rng.normal(size=9000)
    rows = [(float(score), row, row) for row, score in enumerate(scores)]
    gold = [(row, row) for row in range(9000) if rng.random() < 1 / (1 + math.exp(-4 * scores[row]))]
    first, second = labelled(rows, gold), labelled(rows, gold[::-1])
    chosen = best_threshold(first.scores, first.is_gold, first.gold)
    found = bootstrap(first, chosen, resamples=100)
    assert found == bootstrap(second, chosen, resamples=100)
    assert found.threshold[0] < chosen.threshold < found.threshold[1]
    assert found.f1[0] < chosen.f1 < found.f1[1]


PAIRS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=14, unique=True)


@given(candidates=PAIRS, gold=PAIRS, seed=st.integers(0, 99))
def test_no_sentence_is_in_both_halves(
    candidates: list[tuple[int, int]], gold: list[tuple[int, int]], seed: int
) -> None:
    pairs = labelled([(1.0, *pair) for pair in candidates], gold)
    found = halves(pairs)
    groups = components(candidates + gold)
    if found is None:
        biggest = max(groups, key=lambda group: sum(pair in group for pair in gold))
        assert 2 * sum(pair in biggest for pair in gold) >= len(gold)
        return
    first = {pair for pair, inside in zip(candidates + gold, np.append(*found), strict=True) if inside}
    assert all(group <= first or not group & first for group in groups)
    assert 0 < sum(pair in first for pair in gold) < len(gold)
    order = np.random.default_rng(seed).permutation(len(candidates))
    shuffled = labelled([(1.0, *candidates[place]) for place in order], gold[::-1])
    again = halves(shuffled)
    assert again is not None and (again[0] == found[0][order]).all() and (again[1][::-1] == found[1]).all()


def components(pairs: list[tuple[int, int]]) -> list[set[tuple[int, int]]]:
    groups: list[set[tuple[int, int]]] = []
    for pair in pairs:
        touching = [g for g in groups if any(pair[0] == other[0] or pair[1] == other[1] for other in g)]
        groups = [g for g in groups if g not in touching] + [{pair}.union(*touching)]
    return groups


def test_tuned_on_one_half_and_measured_on_the_other() -> None:
    rng = np.random.default_rng(2)
    rows = [(float(rng.normal(row < 200)), row, row) for row in range(400)]
    pairs = labelled(rows, [(row, row) for row in range(220)])
    split = halves(pairs)
    assert split is not None and split[1].sum() == 110
    tuning = split[0]
    for precision in (None, 0.7):
        tuned = best_threshold(pairs.scores[tuning], pairs.is_gold[tuning], 110, precision).threshold
        found = held_out(pairs, precision)
        assert found is not None and found.gold == 110
        assert found.result == measured_threshold(pairs.scores[~tuning], pairs.is_gold[~tuning], 110, tuned)


def test_no_halves() -> None:
    chain = [(1.0, row, column) for row in range(20) for column in (row, row + 1)]
    assert held_out(labelled(chain, [(row, row) for row in range(20)])) is None
    assert held_out(labelled([(1.0, 1, 1), (0.5, 2, 2)], [(1, 1)])) is None
    # A worse candidate before each gold pair: nothing above one half is in reach, in either half.
    pairs = labelled([(2.0, 3, 13), (1.0, 3, 3), (2.0, 4, 14), (1.0, 4, 4)], [(3, 3), (4, 4)])
    assert held_out(pairs, 0.9) is None
    found = held_out(pairs, 0.5)
    assert found is not None and (found.result.count, found.result.correct, found.gold) == (2, 1, 1)
    missed = labelled([(1.0, 1, 1), (1.0, 2, 3)], [(5, 5), (6, 6), (7, 7), (8, 8)])
    assert held_out(missed) is None  # nothing right to tune on
