from __future__ import annotations

import numpy as np
import pytest

from mexma_cli.classifier.calibration import shift_of, shifted


def sample(share: float, rows: int = 40_000) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities that are right where a quarter of the pairs are, of texts with another share; and which
    pairs are."""
    random = np.random.default_rng(0)
    correct = random.random(rows) < share
    value = random.standard_normal(rows) + np.where(correct, 1.5, -1.5)
    return 1 / (1 + np.exp(-(3 * value - np.log(3)))), correct  # Bayes: log odds of the density and the share


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


def test_no_pairs_and_certain_ones() -> None:
    assert shift_of([]) == 0 == shift_of([np.empty(0, np.float32)])
    certain = np.array([0.0, 1.0], np.float32)
    assert np.isfinite(shift_of([certain]))
    np.testing.assert_allclose(shifted(certain, 3.0), certain, atol=1e-6)
