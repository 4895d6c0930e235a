"""Attention within short sentences: torch's in float64, forward and back, in every type and size."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mexma_cli.encoder.model.short_attention import LONGEST, WIDEST, attend, within_short

TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 2e-2}
LENGTHS = st.one_of(st.integers(1, 9), st.sampled_from([31, 32, 33, 100, LONGEST]))


def together(parts: list[torch.Tensor]) -> torch.Tensor:
    return torch.stack(parts[:3], dim=1)


def drawn(shape: tuple[int, int, int], seed: int, spread: float = 1.0) -> list[torch.Tensor]:
    """q, k, v and the slope of the sums."""
    random = torch.Generator().manual_seed(seed)
    q, k, v, slope = (torch.randn(shape, generator=random) for _ in range(4))
    return [q * spread, k, v, slope]


def in_float64(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, lengths: list[int], scale: float | None
) -> torch.Tensor:
    parts = zip(*(tensor.double().transpose(0, 1).split(lengths, 1) for tensor in (q, k, v)), strict=True)
    attention = torch.nn.functional.scaled_dot_product_attention
    return torch.cat([attention(*part, scale=scale) for part in parts], 1).transpose(0, 1)


@given(
    lengths=st.lists(LENGTHS, min_size=1, max_size=12),
    heads=st.integers(1, 4),
    dim=st.sampled_from([1, 5, 16, 32, 48, WIDEST]),
    dtype=st.sampled_from(list(TOLERANCE)),
    scale=st.sampled_from([None, 1.0, 0.01]),
    spread=st.sampled_from([0.0, 1.0, 300.0]),
    seed=st.integers(0, 1000),
)
def test_it_is_attention(
    lengths: list[int],
    heads: int,
    dim: int,
    dtype: torch.dtype,
    scale: float | None,
    spread: float,
    seed: int,
) -> None:
    q, k, v, slope = (part.to(dtype) for part in drawn((sum(lengths), heads, dim), seed, spread))
    ours = [part.clone().requires_grad_() for part in (q, k, v)]
    theirs = [part.clone().requires_grad_() for part in (q, k, v)]
    found = attend(together(ours), lengths, scale, 0.0)
    expected = in_float64(theirs[0], theirs[1], theirs[2], lengths, scale)
    assert found.dtype == dtype and found.shape == q.shape
    found.backward(slope)
    expected.backward(slope.double())
    # What is rounded: scores as large as they are, in float32; and the results, in their type.
    rounding = TOLERANCE[dtype] * (1 + spread / 10) * (1 + max(lengths) ** 0.5)
    assert float((found - expected).detach().abs().max()) < rounding
    for name, left, right in zip("qkv", ours, theirs, strict=True):
        assert left.grad is not None and right.grad is not None
        # Slopes of scores are small differences of sums over a head's numbers.
        size = (1 + float(right.grad.abs().max())) * (1 + dim**0.5 / 2)
        assert float((left.grad - right.grad).abs().max()) < rounding * size, name


def test_how_sentences_are_shared_out_does_not_matter() -> None:
    lengths = np.random.default_rng(0).integers(1, 60, 41).tolist()
    results = []
    threads = torch.get_num_threads()
    for count in (1, 2, 3):
        torch.set_num_threads(count)
        *inputs, slope = drawn((sum(lengths), 3, 20), 1)
        inputs = [part.requires_grad_() for part in inputs]
        torch.manual_seed(5)
        out = attend(together(inputs), lengths, None, 0.2)
        out.backward(slope)
        results.append([out.detach(), *(part.grad for part in inputs)])
    torch.set_num_threads(threads)
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))  # type: ignore[arg-type]


def test_dropout_leaves_out_weights_and_scales_the_others_and_its_slopes_are_those_of_what_is_left() -> None:
    """With unit vectors as values the sums are the weights themselves."""
    n, heads, count, share = 40, 2, 30, 0.25
    lengths = [n] * count
    q, k, _, slope = drawn((n * count, heads, n), 3)
    values = torch.eye(n).repeat(count, 1)[:, None].repeat(1, heads, 1)
    states = together([q, k, values])
    torch.manual_seed(7)
    left = attend(states, lengths, None, share)
    torch.manual_seed(7)
    assert torch.equal(left, attend(states, lengths, None, share))
    assert not torch.equal(left, attend(states, lengths, None, share))
    factors = left / attend(states, lengths, None, 0.0)
    assert torch.allclose(factors[left > 0], torch.tensor(1 / (1 - share)))
    dropped = (left == 0).double()
    assert abs(float(dropped.mean()) - share) < 4 * (share * (1 - share) / dropped.numel()) ** 0.5
    for dim in (0, 1, 2):  # as many in every place
        others = dropped.numel() / dropped.shape[dim]
        means = dropped.transpose(0, dim).flatten(1).mean(1)
        assert float((means - share).abs().max()) < 5 * (share * (1 - share) / others) ** 0.5

    inputs = [part.clone().requires_grad_() for part in (q, k, values)]
    torch.manual_seed(7)
    attend(together(inputs), lengths, None, share).backward(slope)
    doubles = [
        part.double().view(count, n, heads, n).transpose(1, 2).requires_grad_() for part in (q, k, values)
    ]
    mask = torch.where(left == 0, 0.0, 1 / (1 - share)).double().view(count, n, heads, n).transpose(1, 2)
    weights = torch.softmax(doubles[0] @ doubles[1].transpose(-1, -2) * n**-0.5, -1) * mask
    (weights @ doubles[2]).backward(slope.double().view(count, n, heads, n).transpose(1, 2))
    for ours, theirs in zip(inputs, doubles, strict=True):
        assert ours.grad is not None and theirs.grad is not None
        expected = theirs.grad.transpose(1, 2).reshape(ours.shape)
        assert float((ours.grad - expected).abs().max()) < 1e-5


@pytest.mark.parametrize("dtype", list(TOLERANCE))
def test_what_is_no_number_stays_seen(dtype: torch.dtype) -> None:
    q, k, v, _ = (part.to(dtype) for part in drawn((7, 1, 4), 0))
    k[2] = torch.nan
    out = attend(together([q, k, v]), [4, 3], None, 0.0)
    assert out[:4].isnan().all() and not out[4:].isnan().any()


def test_what_it_is_for() -> None:
    short = torch.zeros(1, 1, 5, WIDEST)
    assert within_short(short, LONGEST) and within_short(short.bfloat16(), 1)
    assert not within_short(short, LONGEST + 1)
    assert not within_short(short.double(), 1) and not within_short(short.half(), 1)
    assert not within_short(torch.zeros(1, 1, 5, WIDEST + 1), 1)
