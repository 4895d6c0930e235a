"""Estimates of low precision, in all kinds of arithmetic: nothing is missed, and wrong ones are noticed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mexma_cli.knn import small, sweep, tiles
from mexma_cli.knn.arithmetic import BFLOAT16, FLOAT32, INT8, Arithmetic
from mexma_cli.knn.exact import knn
from mexma_cli.knn.sides import dots
from mexma_cli.store.journal import FileJournal
from tests.knn.searching import DEVICE, Killed, crowded, same, with_arithmetic


@pytest.fixture(scope="module")
def all_cosines() -> tuple[np.ndarray, ...]:
    """Two sides, the cosines of all pairs, and the columns by cosine in each row, and rows in each column."""
    x, y = crowded(2300, 24, 0), crowded(2500, 24, 1)
    exact = np.float32(x / np.linalg.norm(x, axis=1, keepdims=True))
    other = np.float32(y / np.linalg.norm(y, axis=1, keepdims=True))
    rows = np.repeat(np.arange(2300), 2500)
    cosines = dots(exact, other, rows, np.tile(np.arange(2500), 2300)).reshape(2300, 2500)
    return x, y, cosines, *(np.argsort(-each, axis=1, kind="stable") for each in (cosines, cosines.T))


@pytest.mark.parametrize("k", [1, 4, 40])
def test_low_precision_misses_nothing(
    monkeypatch: pytest.MonkeyPatch, k: int, all_cosines: tuple[np.ndarray, ...]
) -> None:
    x, y, cosines, *orders = all_cosines
    forward, backward = (order[:, :k] for order in orders)
    for arithmetic in (FLOAT32, BFLOAT16, INT8, DEVICE):
        with_arithmetic(monkeypatch, arithmetic)
        found = knn(x, y, k)
        # Norms are computed in another order here, so equal cosines may differ in the last bit.
        np.testing.assert_allclose(
            found.forward_scores, np.take_along_axis(cosines, forward, 1), atol=3e-7, rtol=0
        )
        given_back = np.take_along_axis(cosines, found.forward_ids, 1)
        np.testing.assert_allclose(given_back, found.forward_scores, atol=3e-7, rtol=0)
        np.testing.assert_allclose(
            found.backward_scores, np.take_along_axis(cosines.T, backward, 1), atol=3e-7, rtol=0
        )


@pytest.mark.parametrize("arithmetic", [BFLOAT16, DEVICE])
def test_arithmetic_that_is_worse_than_it_says_is_noticed(
    monkeypatch: pytest.MonkeyPatch, arithmetic: Arithmetic
) -> None:
    x, y = crowded(500, 32, 7), crowded(400, 32, 8)
    wanted = knn(x, y, 3)
    tried: list[torch.dtype] = []
    matmul = torch.matmul

    def sloppy(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
        tried.append(a.dtype)
        return matmul(a, b, out=out).mul_(1.5 if a.dtype == torch.bfloat16 else 1)

    with_arithmetic(monkeypatch, arithmetic)
    monkeypatch.setattr(torch, "matmul", sloppy)
    assert same(knn(x, y, 3), wanted)
    assert tried[0] == torch.bfloat16 and tried[-1] == torch.float32


def nasty(kind: str, rows: int, dim: int, seed: int) -> np.ndarray:
    """Vectors that int8 is bad at."""
    rng = np.random.default_rng(seed)
    vectors = rng.standard_normal((rows, dim)).astype(np.float32)
    if kind == "outlier dimensions":
        vectors[:, :2] *= 100
    elif kind == "one row much larger":
        vectors[rows // 2] *= 1e6
    elif kind == "one row of one number":
        vectors[rows // 3] = 0
        vectors[rows // 3, -1] = 1
    elif kind == "all equal":
        vectors[:] = vectors[0]
    elif kind == "constants":
        vectors[:] = vectors[:, :1]
    elif kind == "zeros and duplicates":
        vectors[::3] = 0
        vectors[1::3] = vectors[1]
    return vectors


NARROW = replace(BFLOAT16, width=1)
"""Of half the directions."""
NASTY = [
    "outlier dimensions",
    "one row much larger",
    "one row of one number",
    "all equal",
    "constants",
    "zeros and duplicates",
]


@pytest.mark.parametrize("kind", NASTY)
@pytest.mark.parametrize("dim", [1, 3, 31, 33, 100])
@pytest.mark.parametrize("arithmetic", [INT8, DEVICE, NARROW], ids=["int8", "device", "narrow"])
def test_misses_nothing_on_nasty_vectors(
    monkeypatch: pytest.MonkeyPatch, kind: str, dim: int, arithmetic: Arithmetic
) -> None:
    x, y = nasty(kind, 300, dim, 0), nasty(kind, 270, dim, 1)
    if arithmetic is NARROW:
        arithmetic = replace(NARROW, width=max(1, dim // 2))
    with_arithmetic(monkeypatch, FLOAT32)
    wanted = {k: knn(x, y, k) for k in (4, 280)}
    with_arithmetic(monkeypatch, arithmetic)
    monkeypatch.setattr(tiles, "Y_TILE", 256)
    monkeypatch.setattr(tiles, "GROUPS", 16)
    seen = watch(monkeypatch)
    for k in wanted:
        assert same(knn(x, y, k), wanted[k])
    assert [each.arithmetic for each in seen] == [arithmetic] * 2  # no bound broke


@settings(max_examples=25, deadline=None)
@given(
    sizes=st.tuples(st.integers(1, 90), st.integers(1, 90)),
    falls=st.sampled_from([0.0, 1.0, 3.0]),
    kind=st.sampled_from([FLOAT32, BFLOAT16, INT8]),
    width=st.integers(1, 24),
    k=st.integers(1, 9),
    seed=st.integers(0, 99),
)
def test_some_directions_are_enough(
    sizes: tuple[int, int], falls: float, kind: Arithmetic, width: int, k: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    spectrum = np.arange(1, 25) ** -falls
    x, y = (rng.standard_normal((rows, 24)) * spectrum + rng.integers(0, 2) for rows in sizes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(small, "WORK", 0)
        with_arithmetic(patch, FLOAT32)
        wanted = knn(x, y, k)
        with_arithmetic(patch, replace(kind, width=width))
        seen = watch(patch)
        assert same(knn(x, y, k), wanted)
    assert [each.arithmetic.width for each in seen] == [width]  # no bound broke


def watch(patch: pytest.MonkeyPatch) -> list[sweep.Sweep]:
    """All searches from here on."""
    seen: list[sweep.Sweep] = []
    run = sweep.Sweep.run

    def watched(self: sweep.Sweep, *arguments: object) -> None:
        seen.append(self)
        run(self, *arguments)  # type: ignore[arg-type]

    patch.setattr(sweep.Sweep, "run", watched)
    return seen


def test_a_single_odd_row_does_not_make_all_others_dear(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = nasty("plain", 600, 256, 0), nasty("plain", 600, 256, 1)
    with_arithmetic(monkeypatch, INT8)
    seen = watch(monkeypatch)
    knn(x, y, 4)
    x[300] = y[300] = np.eye(256)[3]
    knn(x, y, 4)
    plain, odd = (each.computed for each in seen)
    assert odd < plain + 3 * 1200  # its own row and column, at most


def test_int8_estimates_that_are_wrong_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = crowded(500, 32, 7), crowded(400, 32, 8)
    wanted = knn(x, y, 3)
    product = Arithmetic.product

    def sloppy(self: Arithmetic, low: np.ndarray, steps: np.ndarray, height: int):  # type: ignore[no-untyped-def]
        return product(self, low, steps * np.float32(1.5 if self is INT8 else 1), height)

    with_arithmetic(monkeypatch, INT8)
    monkeypatch.setattr(Arithmetic, "product", sloppy)
    seen = watch(monkeypatch)
    assert same(knn(x, y, 3), wanted)
    assert [each.arithmetic for each in seen] == [INT8, FLOAT32]


def test_a_journal_forgets_what_wrong_estimates_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The seventh tile loses all its pairs, which nobody can see; from the 13th on estimates are seen to be
    wrong. The search in float32 is killed after its first entry, when more of it is done than before."""
    x, y = np.random.default_rng(0).standard_normal((2, 400, 16)).astype(np.float32)
    wanted = knn(x, y, 5)
    scan, matmul, save, done = sweep.Sweep._scan, torch.matmul, FileJournal.save, []

    def counted(self: sweep.Sweep, *arguments: Any) -> None:
        done.append(self.arithmetic)
        scan(self, *arguments)

    def sloppy(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
        matmul(a, b, out=out)
        if done[-1] is BFLOAT16:
            out.mul_(1.5 if len(done) > 12 else 1).add_(-1e6 if len(done) == 7 else 0)

    def deadly(self: FileJournal, place: tuple[int, int, int], *lists: np.ndarray) -> None:
        save(self, place, *lists)
        if done[-1] is FLOAT32:
            raise Killed

    with monkeypatch.context() as patch:
        for name in ("X_TILE", "Y_TILE"):
            patch.setattr(tiles, name, 100)
        patch.setattr(sweep, "X_ROWS", 100)
        with_arithmetic(patch, BFLOAT16)
        patch.setattr(sweep.Sweep, "_scan", counted)
        patch.setattr(torch, "matmul", sloppy)
        patch.setattr(FileJournal, "due", lambda _: done[-1] is BFLOAT16 or done.count(FLOAT32) > 9)
        patch.setattr(FileJournal, "save", deadly)
        with pytest.raises(Killed):
            knn(x, y, 5, journal=FileJournal(tmp_path, {}))
    assert same(knn(x, y, 5, journal=FileJournal(tmp_path, {})), wanted)
