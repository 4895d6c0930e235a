from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.knn.exact import knn
from mexma_cli.mining.candidates import Candidates
from mexma_cli.mining.estimate import LabelledModel, ProbabilityModel, ScoreModel, pairs_to_label
from mexma_cli.mining.lists import without_pairs
from mexma_cli.mining.match import match
from tests.examples import demo_pairs

K = 4


@cache
def vectors() -> tuple[np.ndarray, np.ndarray]:
    pairs = [pair.split("\t") for pair in demo_pairs(1000)]
    encoder = SentenceEncoder.load("mini")
    spanish, english = (encoder.embed([pair[side] for pair in pairs]) for side in (0, 1))
    return spanish, english


@cache
def rounds(share: float, seed: int = 0) -> tuple[Candidates, Candidates, int, int]:
    """The pairs of both rounds, the lines of a side, and how many of them, the first ones, are translated."""
    source, target = vectors()
    order = np.random.default_rng(seed).permutation(len(source))
    lines = int(len(source) / (2 - share))
    aligned = int(share * lines)
    x, y = source[order[:lines]], target[np.append(order[:aligned], order[lines : 2 * lines - aligned])]
    neighbours = knn(x, y, K + 1)
    first = match(neighbours.first(K))
    return first, match(without_pairs(neighbours, first, K)), lines, aligned


@cache
def mixture(share: float, seed: int = 0) -> tuple[ScoreModel, np.ndarray, np.ndarray]:
    """The model, the scores, and which pairs are right; a share of the lines is translated."""
    first, second, lines, aligned = rounds(share, seed)
    right = (first.source == first.target) & (first.source < aligned)
    return ScoreModel(first, second, (lines, lines)), first.scores, right


@pytest.mark.parametrize("share", [0.12, 0.35, 0.75])
@pytest.mark.parametrize("wanted", [0.8, 0.9, 0.95])
def test_the_interval_contains_the_true_precision(share: float, wanted: float) -> None:
    model, first, right = mixture(share)
    cut = model.cut(model.choose(wanted))
    truth = right[first > cut.threshold].mean()
    low, high = cut.precision_interval
    assert low <= truth <= high and cut.precision >= wanted
    assert cut.count == (first > cut.threshold).sum()
    assert model.translations == pytest.approx(right.sum(), rel=0.25 if share > 0.12 else 0.3)  # of 61


@pytest.mark.parametrize("share", [0.12, 0.35])
def test_the_best_f1_is_near_that_of_the_gold_list(share: float) -> None:
    model, first, right = mixture(share)

    def f1(threshold: float) -> float:
        above = first > threshold
        return 2 * right[above].sum() / (above.sum() + right.sum())

    assert f1(model.choose()) > max(map(f1, first.tolist())) - (0.03 if share > 0.12 else 0.06)


@given(scale=st.floats(0.01, 100), shift=st.floats(-10, 10))
@settings(max_examples=20)
def test_any_scale_of_the_scores_will_do(scale: float, shift: float) -> None:
    first, second = rounds(0.35)[:2]
    lines = 2 * (len(first),)
    moved = (
        replace(found, scores=scale * found.scores.astype(np.float64) + shift) for found in (first, second)
    )
    one, other = ScoreModel(first, second, lines), ScoreModel(*moved, lines)
    assert other.wrong == pytest.approx(one.wrong, rel=0.01)
    at = np.quantile(first.scores, [0.3, 0.6, 0.9])
    assert other.wrong_above(scale * at + shift) == pytest.approx(one.wrong_above(at), rel=0.02, abs=1)


@pytest.mark.parametrize(("change", "low", "high"), [(-0.15, 0.1, 1.0), (0.0, 0.0, 0.0), (0.15, -1.0, -0.1)])
def test_translations_with_other_near_misses_than_the_rest_are_noticed(
    change: float, low: float, high: float
) -> None:
    """Near misses are the second round's pairs of rows that were paired rightly in the first."""
    first, second, lines, aligned = rounds(0.35)
    right = np.zeros(lines, bool)
    right[first.source[(first.source == first.target) & (first.source < aligned)]] = True
    scores = second.scores + np.float32(change) * (right[second.source] & right[second.target])
    order = np.argsort(-scores, kind="stable")
    moved = replace(second, scores=scores[order], source=second.source[order], target=second.target[order])
    assert low <= ScoreModel(first, moved, (lines, lines)).drift <= high


def test_translations_of_another_kind_are_covered() -> None:
    """Long sentences are translated, and short ones, which have more near misses, lie around them."""
    source, target = vectors()
    by_length = np.argsort([-len(pair) for pair in demo_pairs(1000)])
    x, y = (
        source[np.append(by_length[:250], by_length[400:700])],
        target[np.append(by_length[:250], by_length[700:])],
    )
    neighbours = knn(x, y, K + 1)
    first = match(neighbours.first(K))
    model = ScoreModel(first, match(without_pairs(neighbours, first, K)), (550, 550))
    right = (first.source == first.target) & (first.source < 250)
    cut = model.cut(model.choose(0.8))
    low, high = cut.precision_interval
    assert low <= right[first.scores > cut.threshold].mean() <= high


def test_labels_narrow_the_interval_and_mend_the_model() -> None:
    model, first, right = mixture(0.35)
    labels = pairs_to_label(model, first, 50)
    assert len(set(labels.tolist())) == len(labels) <= 50
    labelled = LabelledModel(model, first, labels, right[labels])
    for threshold in np.quantile(first, [0.2, 0.5, 0.6]).tolist():
        truth = right[first > threshold].mean()
        low, high = labelled.cut(threshold).precision_interval
        assert low <= truth <= high
    assert np.ptp(labelled.cut(1.0).precision_interval) < np.ptp(model.cut(1.0).precision_interval)
    # Who calls everything wrong is believed, though the model thought otherwise.
    assert LabelledModel(model, first, labels, np.zeros(len(labels), bool)).cut(1.0).precision < 0.25


@pytest.mark.parametrize("levels", [1, 2, 5])
def test_scores_that_are_all_alike_are_no_mistake(levels: int) -> None:
    scores = np.repeat(np.arange(float(levels), 0, -1), 120)
    rows = np.arange(len(scores))
    pairs = Candidates(scores, rows, rows, scores)
    model = ScoreModel(pairs, pairs, (len(rows), len(rows)))
    labels = pairs_to_label(model, scores, 10)
    for tried in (model, LabelledModel(model, scores, labels, np.ones(len(labels), bool))):
        cut = tried.cut(tried.choose())
        low, high = cut.precision_interval
        assert 0 <= low <= cut.precision <= high <= 1 and cut.count <= len(scores)
        assert ((tried.probability(scores) >= 0) & (tried.probability(scores) <= 1)).all()


def test_the_precision_of_probabilities_is_their_mean() -> None:
    random = np.random.default_rng(3)
    scores = random.permutation(random.beta(0.3, 0.7, 4000))
    right = random.random(4000) < scores
    model = ProbabilityModel(scores)
    for wanted in (0.8, 0.95):
        cut = model.cut(model.choose(wanted))
        above = scores > cut.threshold
        assert cut.count == above.sum() and cut.precision == pytest.approx(scores[above].mean())
        low, high = cut.precision_interval
        assert wanted <= cut.precision < wanted + 0.01 and low < right[above].mean() < high
        assert cut.precision == pytest.approx(right[above].mean(), abs=0.02)
        assert cut.recall == pytest.approx(right[above].sum() / right.sum(), abs=0.03)
    labelled = np.arange(0, 4000, 20)
    wrong = LabelledModel(model, scores, labelled, right[labelled] & (np.arange(200) % 2 == 0))
    assert wrong.cut(0.5).precision < model.cut(0.5).precision - 0.1
