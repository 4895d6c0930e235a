"""The losses against their formulas in plain NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from mexma_cli.objectives import losses
from tests.objectives.formulas import hard_negatives, info_nce, log_softmax, unit

Array = np.ndarray


def vectors(count: int, dim: int = 16, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=(count, dim))


def tensor(x: Array) -> torch.Tensor:
    return torch.tensor(x, dtype=torch.float32, requires_grad=True)


def test_alignment_is_the_mean_square() -> None:
    x, y = vectors(5), vectors(5, seed=1)
    assert float(losses.alignment(tensor(x), tensor(y))) == pytest.approx(((x - y) ** 2).mean(), rel=1e-6)


@pytest.mark.parametrize("count", [2, 3, 40])
def test_koleo_is_minus_the_mean_log_distance_to_the_nearest(count: int) -> None:
    x = vectors(count)
    distances = np.linalg.norm(unit(x)[:, None] - unit(x)[None], axis=-1)
    np.fill_diagonal(distances, np.inf)
    expected = -np.log(distances.min(axis=1)).mean()
    assert float(losses.koleo(tensor(x))) == pytest.approx(expected, rel=1e-5)


def test_koleo_is_of_directions_only() -> None:
    x = vectors(10)
    scaled = x * np.arange(1, 11)[:, None]
    assert float(losses.koleo(tensor(x))) == pytest.approx(float(losses.koleo(tensor(scaled))), rel=1e-5)


def koleo(x: Array, identities: Array) -> float:
    """Over rows that have a neighbour of another identity; below the limit, the tangent of the log."""
    distances = np.linalg.norm(unit(x)[:, None] - unit(x)[None], axis=-1)
    distances[identities[:, None] == identities[None]] = np.inf
    nearest = distances.min(axis=1)
    nearest = nearest[np.isfinite(nearest)]
    limit = losses.KOLEO_CLOSEST
    logs = np.where(
        nearest > limit, np.log(np.maximum(nearest, limit)), np.log(limit) + (nearest - limit) / limit
    )
    return -logs.mean()


def row_gradients(x: Array, identities: Array | None = None) -> Array:
    """The loss's gradient, by length, of each row."""
    rows = tensor(x)
    losses.koleo(rows, None if identities is None else torch.from_numpy(identities)).backward()
    assert rows.grad is not None
    return rows.grad.norm(dim=1).numpy()


def test_koleo_knows_a_sentence_that_comes_again() -> None:
    x = np.repeat(vectors(4), [1, 3, 2, 1], axis=0)
    identities = np.repeat([7, 3, -5, 0], [1, 3, 2, 1])
    loss = losses.koleo(tensor(x), torch.from_numpy(identities))
    assert float(loss) == pytest.approx(koleo(x, identities), rel=1e-5)
    only = np.zeros(7, dtype=np.int64)
    assert float(losses.koleo(tensor(x), torch.from_numpy(only))) == 0
    assert not row_gradients(x, only).any()


@pytest.mark.parametrize("apart", [0.0, 1e-7, 1e-4, 1e-2])
def test_koleo_of_rows_close_together_pushes_with_bounded_force(apart: float) -> None:
    """Three rows alike of 150, where the authors' loss has a gradient of 622, or of 3e-4 without them."""
    x = unit(vectors(150, 32))
    x[1:3] = x[0] + apart * unit(vectors(2, 32, seed=1))
    identities = np.arange(150)
    assert float(losses.koleo(tensor(x))) == pytest.approx(koleo(x, identities), rel=1e-4)
    assert row_gradients(x).max() <= 3.01 / (150 * max(losses.KOLEO_CLOSEST, apart / 2))
    if apart == 0:
        assert row_gradients(x)[:3].max() < 0.1
        identities[:3] = 0
        assert row_gradients(x, identities).max() < 0.1


def test_koleo_of_one_vector_is_nothing() -> None:
    x = tensor(vectors(1))
    loss = losses.koleo(x)
    loss.backward()
    assert float(loss.detach()) == 0 and x.grad is not None and not x.grad.any()


@pytest.mark.parametrize("margin", [0.0, 0.3])
def test_info_nce(margin: float) -> None:
    x, y = vectors(6), vectors(6, seed=1)
    none = np.zeros((6, 6), dtype=bool)
    arguments = (tensor(x), tensor(y), 0.05, torch.from_numpy(none), margin)
    there, back = info_nce(x, y, 0.05, margin)
    assert float(losses.info_nce(*arguments)) == pytest.approx((there + back) / 2, rel=1e-5)
    assert float(losses.info_nce(*arguments, symmetric=False)) == pytest.approx(there, rel=1e-5)


def test_info_nce_leaves_repeated_sentences_out() -> None:
    x, y = vectors(6), vectors(6, seed=1)
    repeated = np.zeros((6, 6), dtype=bool)
    repeated[0, 3] = repeated[3, 0] = True
    x[3] = x[0]
    source = tensor(x)
    loss = losses.info_nce(source, tensor(y), 0.1, torch.from_numpy(repeated))
    assert float(loss.detach()) == pytest.approx(np.mean(info_nce(x, y, 0.1, repeated=repeated)), rel=1e-5)
    loss.backward()
    assert source.grad is not None and torch.isfinite(source.grad).all()


@given(st.lists(st.integers(0, 3), min_size=1, max_size=6), st.sampled_from([1.0, 0.05, 0.001]))
def test_hard_negatives_are_a_softmax_of_their_own(counts: list[int], temperature: float) -> None:
    """Also where a pair has none, and where the exponentials would be no float32."""
    x, y, all_ = (vectors(n, seed=seed) for seed, n in enumerate((len(counts), len(counts), sum(counts))))
    source = tensor(x)
    pairs = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
    loss = losses.hard_negatives(source, tensor(y), tensor(all_), pairs, temperature)
    wanted = hard_negatives(x, y, np.split(all_, np.cumsum(counts)[:-1]), temperature)
    assert float(loss.detach()) == pytest.approx(wanted, rel=1e-4, abs=1e-6)
    loss.backward()
    assert source.grad is not None and torch.isfinite(source.grad).all()


def test_info_nce_of_one_pair_is_nothing() -> None:
    none = torch.zeros(1, 1, dtype=torch.bool)
    assert float(losses.info_nce(tensor(vectors(1)), tensor(vectors(1, seed=1)), 0.1, none)) == 0


@pytest.mark.parametrize("rows", [1, 7, 2 * losses.CHUNK_ROWS + 3])
def test_unmasking_is_cross_entropy(rows: int) -> None:
    rng = np.random.default_rng(0)
    hidden, words, bias = (rng.normal(size=size) for size in ((rows, 16), (50, 16), 50))
    labels = rng.integers(0, 50, rows)
    expected = -log_softmax(hidden @ words.T + bias)[np.arange(rows), labels].mean()
    loss = losses.unmasking(tensor(hidden), tensor(words), tensor(bias), torch.from_numpy(labels))
    assert float(loss) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("low, tolerance", [(False, 1e-5), (True, 0.02)], ids=["fp32", "bf16"])
def test_unmasking_has_the_gradients_of_cross_entropy(
    monkeypatch: pytest.MonkeyPatch, low: bool, tolerance: float
) -> None:
    monkeypatch.setattr(losses, "BLOCK_WORDS", 20)
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=size) for size in ((losses.CHUNK_ROWS + 9, 16), (50, 16), 50)]
    labels = torch.from_numpy(rng.integers(0, 50, len(arrays[0])))
    ours, plain = ([tensor(array) for array in arrays] for _ in "ab")
    with torch.autocast("cpu", torch.bfloat16, enabled=low):
        (3 * losses.unmasking(*ours, labels)).backward()
    logits = plain[0] @ plain[1].T + plain[2]
    (3 * torch.nn.functional.cross_entropy(logits, labels)).backward()
    for mine, other in zip(ours, plain, strict=True):
        assert mine.grad is not None and other.grad is not None
        assert mine.grad.dtype == torch.float32
        assert (mine.grad - other.grad).norm() < tolerance * other.grad.norm()


class Largest(TorchDispatchMode):
    """Numbers in the largest tensor that any operation returned."""

    count = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = function(*args, **(kwargs or {}))
        sizes = [leaf.numel() for leaf in tree_leaves(out) if isinstance(leaf, torch.Tensor)]
        self.count = max(self.count, *sizes, 0)
        return out


def test_unmasking_never_has_all_logits() -> None:
    rows, vocabulary, dim = 6 * losses.CHUNK_ROWS, 700, 8
    hidden, words, bias = (
        tensor(vectors(rows, dim)),
        tensor(vectors(vocabulary, dim)),
        tensor(vectors(1, 700)[0]),
    )
    with Largest() as largest:
        losses.unmasking(hidden, words, bias, torch.arange(rows) % vocabulary).backward()
    assert largest.count == losses.CHUNK_ROWS * vocabulary


def test_unmasking_with_frozen_words() -> None:
    hidden, words, bias = tensor(vectors(5)), tensor(vectors(9, seed=1)).detach(), tensor(np.zeros(9))
    losses.unmasking(hidden, words, bias, torch.arange(5)).backward()
    assert hidden.grad is not None and hidden.grad.any() and words.grad is None


def test_unmasking_with_nothing_masked_is_nothing() -> None:
    hidden, words, bias = tensor(np.empty((0, 16))), tensor(vectors(9)), tensor(np.zeros(9))
    loss = losses.unmasking(hidden, words, bias, torch.empty(0, dtype=torch.int64))
    loss.backward()
    assert float(loss.detach()) == 0


def test_koleo_of_vectors_as_they_are() -> None:
    """The paper's formula: by distance the nearest of (3, 0) is (3, 1), though (9, 0) has its direction."""
    rows = torch.tensor([[3.0, 0.0], [3.0, 1.0], [9.0, 0.0]])
    nearest = torch.tensor([1.0, 1.0, 6.0])
    assert losses.koleo(rows, normalise=False).item() == pytest.approx(-nearest.log().mean().item())
