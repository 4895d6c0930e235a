from __future__ import annotations

import numpy as np
import pytest

from mexma_cli.classifier.calibration import calibrated, shift_of, shifted

OTHERS = 5e-4, 4.5e-3, 4e-2
"""Probabilities of pairs that are wrong; as in the weights' training, and ten times less and more."""


def sample(share: float, rows: int = 40_000) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities that are right where 28 % of the pairs are, of texts with another share; and which
    pairs are."""
    random = np.random.default_rng(0)
    correct = random.random(rows) < share
    value = random.standard_normal(rows) + np.where(correct, 1.5, -1.5)
    return 1 / (
        1 + np.exp(-(3 * value - np.log(0.72 / 0.28)))
    ), correct  # Bayes: log odds of the density and the share


@pytest.mark.parametrize("share", [0.02, 0.25, 0.8])
def test_probabilities_fit_the_share_of_translations(share: float) -> None:
    before, correct = sample(share)
    found = shifted(before, shift_of(np.array_split(before, 7)))
    assert found.mean() == pytest.approx(share, abs=0.01)
    for low in np.arange(0, 1, 0.25):
        inside = (found >= low) & (found < low + 0.25)
        assert found[inside].mean() == pytest.approx(correct[inside].mean(), abs=0.05)
    order = np.argsort(before)
    assert (np.diff(found[order]) >= 0).all()


def test_wrong_pairs_that_are_probable_make_all_less_probable() -> None:
    taken = sample(0.3)[0]
    means = [calibrated(taken, np.append(taken, np.full(80_000, other)), 80_000).mean() for other in OTHERS]
    assert means[0] - 0.02 > means[1] > means[2] + 0.02 and means[1] == pytest.approx(0.3, abs=0.02)
    assert calibrated(taken, taken, 80_000).mean() == pytest.approx(0.3, abs=0.02)  # there is no other


def test_no_pairs_and_certain_ones() -> None:
    assert shift_of([]) == 0 == shift_of([np.empty(0, np.float32)])
    certain = np.array([0.0, 1.0], np.float32)
    assert np.isfinite(shift_of([certain]))
    np.testing.assert_allclose(shifted(certain, 3.0), certain, atol=1e-6)
