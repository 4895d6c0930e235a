"""xsim against LASER's numbers and against plain NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from mexma_cli.evaluation.xsim import xsim
from tests.reference import laser, laser_printed


def plain_xsim(x: np.ndarray, y: np.ndarray, margin: str, k: int) -> np.ndarray:
    """What every row finds, by the formula, over the whole matrix."""
    x, y = (side / np.linalg.norm(side, axis=1, keepdims=True) for side in (x.astype(float), y.astype(float)))
    cosines = x @ y.T
    if margin == "absolute":
        return cosines.argmax(axis=1)
    near = np.sort(cosines, axis=1)[:, -k:].mean(axis=1)[:, None]
    other = np.sort(cosines, axis=0)[-k:].mean(axis=0)[None, :]
    background = (near + other) / 2
    scores = cosines / background if margin == "ratio" else cosines - background
    kth = np.sort(cosines, axis=1)[:, -k][:, None]
    return np.where(cosines >= kth, scores, -np.inf).argmax(axis=1)


def noisy(rows: int, more: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Vectors, and their translations followed by vectors near these."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((rows, 16)).astype(np.float32)
    y = x + 1.3 * rng.standard_normal(x.shape)
    hard = y[rng.integers(0, rows, more)] + 0.5 * rng.standard_normal((more, 16))
    return x, np.concatenate([y, hard]).astype(np.float32)


def test_counts_errors_as_laser() -> None:
    x, y = laser()["xsim.src"], laser()["xsim.tgt"]
    before = x.copy()
    for (margin, k), errors in laser_printed("xsim").items():
        found = xsim(x, y, margin, k)
        assert (found.errors, found.total) == (errors, len(x)), (margin, k)
        assert found.index_errors == found.errors
    np.testing.assert_array_equal(x, before)  # LASER normalises its caller's arrays in place


@pytest.mark.parametrize("margin", ["ratio", "distance", "absolute"])
@pytest.mark.parametrize("more", [0, 150])
def test_against_plain_numpy(margin: str, more: int) -> None:
    x, y = noisy(120, more, seed=more)
    found = xsim(x, y, margin, k=4)
    expected = plain_xsim(x, y, margin, k=4)
    np.testing.assert_array_equal(found.found, expected)
    assert found.errors == (expected != np.arange(120)).sum() > 0


def test_finding_the_same_sentence_elsewhere_is_no_error() -> None:
    x = np.eye(4, dtype=np.float32)
    y = x[[1, 0, 2, 2]]
    texts = ["same", "same", "other", "third"]
    found = xsim(x, y, "absolute", texts=texts)
    assert (found.index_errors, found.errors) == (3, 1)
    assert found.wrong.tolist() == [False, False, False, True]


def test_more_neighbours_than_rows() -> None:
    x = np.eye(3, dtype=np.float32)
    found = xsim(x, x[[0, 2, 1]], k=16)
    assert (found.errors, found.error_rate) == (2, pytest.approx(200 / 3))


def test_sides_must_be_aligned() -> None:
    with pytest.raises(ValueError, match="aligned"):
        xsim(np.ones((3, 2), np.float32), np.ones((2, 2), np.float32))
