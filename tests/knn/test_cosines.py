"""Unit vectors, exact cosines and lists, by NumPy and by compiled loops."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mexma_cli.knn import cosines, kernels
from mexma_cli.knn.cosines import EMPTY, TileLimits, keys_of


@pytest.mark.parametrize("dim", [1, 7, 8, 320, 1029])
def test_unit_vectors_are_on_the_grid_and_cosines_those_of_compiled_loops(dim: int) -> None:
    rng = np.random.default_rng(dim)
    rows = rng.standard_normal((50, dim)).astype(np.float32) * np.float32(10) ** rng.integers(
        -18, 18, (50, 1)
    )
    rows[3] = 0
    ours = rows.copy()
    assert cosines.unit_rows(ours) == -1 and not ours[3].any()
    theirs = rows.copy()
    assert kernels.unit_rows(theirs) == -1 and (theirs == ours).all()
    assert (np.float64(ours) * 2**26 % 1 == 0).all()
    assert np.allclose(np.linalg.norm(ours[4:].astype(np.float64), axis=1), 1, atol=1e-6)
    pairs = rng.integers(0, 50, (2, 400))
    mirrored = np.ascontiguousarray(ours[:, ::-1])
    found = cosines.dots(ours, ours, *pairs)
    assert (found == kernels.dots(ours, ours, *pairs)).all()
    assert (found == cosines.dots(mirrored, mirrored, *pairs)).all()  # whatever the order of the sum
    rows[7, 0] = np.nan
    assert cosines.unit_rows(rows.copy()) == kernels.unit_rows(rows.copy()) == 7


@given(
    sizes=st.tuples(st.integers(1, 20), st.integers(1, 90)),
    most=st.integers(1, 200),
    seed=st.integers(0, 99),
    low=st.booleans(),
)
def test_all_estimates_that_reach_a_limit_are_found(
    sizes: tuple[int, int], most: int, seed: int, low: bool
) -> None:
    rng = np.random.default_rng(seed)
    tile = rng.standard_normal(sizes).astype(np.float32)
    bits = (tile.view(np.uint32) >> 16).astype(np.uint16)
    if low:
        tile = (bits.astype(np.uint32) << 16).view(np.float32)
    limits = [TileLimits(rng.normal(1.5, 1, size), rng.normal(0, 1, size)) for size in sizes]
    limits = [TileLimits(*(part.astype(np.float32) for part in limit)) for limit in limits]
    rows, columns = limits
    reached = (tile >= rows.need[:, None] - columns.above) | (tile >= columns.need - rows.above[:, None])
    with pytest.MonkeyPatch.context() as patch:
        for module in (cosines, kernels):
            patch.setattr(module, "PAIRS", most)
        for parts in (cosines.near(tile, *limits), kernels.near(bits if low else tile, *limits)):
            found = [np.concatenate(arrays) for arrays in zip(*parts, strict=True)]
            assert (np.stack(found[:2]) == np.nonzero(reached)).all()
            assert (found[2] == tile[reached]).all()


@given(rows=st.integers(1, 9), k=st.integers(1, 5), seed=st.integers(0, 99))
def test_lists_have_the_best_whatever_is_offered_and_when(rows: int, k: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    scores = (rng.integers(-2, 3, (rows, 12)) / 2).astype(np.float32)  # with ties
    taken = rng.random(scores.shape) < 0.7
    pairs = rng.permutation(np.argwhere(taken)).T
    wanted = np.sort(np.where(taken, keys_of(scores, np.arange(12)), EMPTY), axis=1)[:, -k:]
    for module in (cosines, kernels):
        best = np.full((rows, k), EMPTY)
        for part in np.array_split(pairs, 3, axis=1):
            lists, ids = np.ascontiguousarray(part)
            module.offer(best, lists, ids, scores[lists, ids])
        assert (best == wanted).all()
