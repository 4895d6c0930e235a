from __future__ import annotations

import numpy as np
import pytest

from mexma_cli.knn.neighbours import Neighbours
from mexma_cli.mining.margin import MARGINS, margin, means


def f32(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float32)


def test_the_three_margins() -> None:
    cosine, forward, backward = f32(0.8, 0.3), f32(0.5, 0.6), f32(0.3, 0.2)
    np.testing.assert_allclose(margin(cosine, forward, backward, "absolute"), [0.8, 0.3])
    np.testing.assert_allclose(margin(cosine, forward, backward, "distance"), [0.4, -0.1], atol=1e-7)
    np.testing.assert_allclose(margin(cosine, forward, backward, "ratio"), [2.0, 0.75], rtol=1e-6)
    for kind in MARGINS:
        assert margin(cosine, forward, backward, kind).dtype == np.float32


@pytest.mark.parametrize("kind", [name for name, known in MARGINS.items() if known.slope])
def test_a_slope_bounds_how_much_a_score_changes_with_its_cosine(kind: str) -> None:
    rng = np.random.default_rng(0)
    first, second, background = rng.uniform(-1, 1, (3, 1000)).astype(np.float32)
    slope = MARGINS[kind].slope
    assert slope is not None
    changed = np.abs(
        margin(first, background, background, kind) - margin(second, background, background, kind)
    )
    assert (changed <= 1.0001 * slope(background) * np.abs(first - second) + 1e-6).all()


def test_a_ratio_to_nothing_is_zero_and_never_nan() -> None:
    assert margin(f32(0.0, 0.5), f32(0.0, 0.2), f32(0.0, -0.2), "ratio").tolist() == [0.0, 0.0]


def test_an_unknown_margin_is_refused() -> None:
    with pytest.raises(ValueError, match="none of ratio, "):
        margin(f32(1), f32(1), f32(1), "cosine")


def test_rows_left_out_have_a_mean_of_zero() -> None:
    found = Neighbours(
        forward_scores=np.array([[0.5, 0.25], [-np.inf, -np.inf]], np.float32),
        forward_ids=np.array([[0, 1], [-1, -1]]),
        backward_scores=np.empty((2, 0), np.float32),
        backward_ids=np.empty((2, 0), np.int64),
    )
    forward, backward = means(found)
    assert forward.tolist() == [0.375, 0.0] and backward.tolist() == [0.0, 0.0]
