"""The search for few rows against the one for many, to the last bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mexma_cli.knn import kernels, small, units
from mexma_cli.knn.exact import knn
from mexma_cli.numerics.precisions import computing_on
from tests.knn.searching import crowded, same


@settings(max_examples=40)
@given(
    sizes=st.tuples(st.integers(0, 90), st.integers(0, 90)),
    dim=st.sampled_from([1, 2, 7, 33]),
    k=st.sampled_from([1, 3, 100]),
    tile=st.tuples(st.integers(1, 50), st.integers(1, 50)),
    waiting=st.sampled_from([1, 50, 1000]),
    seed=st.integers(0, 99),
)
def test_both_searches_give_the_same_bytes(
    sizes: tuple[int, int], dim: int, k: int, tile: tuple[int, int], waiting: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    x, y = (np.round(rng.standard_normal((rows, dim)) * 3).astype(np.float32) / 3 for rows in sizes)  # ties
    keep = rng.random(sizes[0]) < 0.9
    found = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(small, "_TILE", tile)
        patch.setattr(small, "_WAITING", waiting)
        for work in (small.WORK, 0):
            patch.setattr(small, "WORK", work)
            found.append(knn(x, y, k, keep_x=keep))
    assert same(*found)


def test_crowds_are_told_apart() -> None:
    x, y = crowded(400, 24, 0), crowded(300, 24, 1)
    steps: list[tuple[int, int]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(small, "_TILE", (256, 300))
        found = knn(x, y, 5, on_progress=lambda *step: steps.append(step))
        patch.setattr(small, "WORK", 0)
        assert same(found, knn(x, y, 5))
    assert steps == [(1, 2), (2, 2)]


@pytest.mark.parametrize("dim", [1, 7, 8, 320, 1029])
def test_unit_vectors_are_on_the_grid_and_cosines_those_of_compiled_loops(dim: int) -> None:
    rng = np.random.default_rng(dim)
    rows = rng.standard_normal((50, dim)).astype(np.float32) * np.float32(10) ** rng.integers(
        -18, 18, (50, 1)
    )
    rows[3] = 0
    ours = rows.copy()
    assert units.unit_rows(ours) == -1 and not ours[3].any()
    assert (np.float64(ours) * 2**26 % 1 == 0).all()
    assert np.allclose(np.linalg.norm(ours[4:].astype(np.float64), axis=1), 1, atol=1e-6)
    pairs = rng.integers(0, 50, (2, 400))
    mirrored = np.ascontiguousarray(ours[:, ::-1])
    cosines = units.dots(ours, ours, *pairs)
    assert (cosines == kernels.dots(ours, ours, *pairs)).all()
    assert (cosines == units.dots(mirrored, mirrored, *pairs)).all()  # whatever the order of the sum
    rows[7, 0] = np.nan
    assert units.unit_rows(rows.copy()) == 7


def test_a_named_gpu_is_not_passed_over() -> None:
    """`--device cuda` on a machine without one is an error for few rows, too."""
    vectors = np.eye(4, dtype=np.float32)
    with computing_on("banana"), pytest.raises(Exception, match="unknown device 'banana'"):
        knn(vectors, vectors, 1)
