"""The softmax over a vocabulary: torch's cross-entropy and its gradient, in every type and at any size."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mexma_cli.objectives.losses import BLOCK, _slopes
from tests.processes import Program

TYPES = [torch.float32, torch.bfloat16, torch.float16]
"""float16 is torch's own way, as all types are on a GPU."""


def expected(logits: torch.Tensor, bias: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Of float64 logits: the losses, their gradients, and those of the bias."""
    inputs = logits.double().requires_grad_(), bias.double().requires_grad_()
    losses = torch.nn.functional.cross_entropy(inputs[0] + inputs[1], labels, reduction="none")
    losses.sum().backward()
    return losses.detach(), *(one.grad for one in inputs if one.grad is not None)


@given(
    st.integers(1, 9),
    st.sampled_from([1, 2, 15, 16, 17, BLOCK, BLOCK + 1, 3 * BLOCK + 77]),
    st.sampled_from([0.0, 1.0, 30.0, 3000.0]),
    st.sampled_from([-5000.0, 0.0, 70.0, 5000.0]),
    st.sampled_from(TYPES),
    st.integers(0, 1000),
)
def test_it_is_cross_entropy(
    rows: int, words: int, spread: float, offset: float, dtype: torch.dtype, seed: int
) -> None:
    """Whatever the logits' size: nothing overflows, and what is next to nothing is zero or next to it."""
    random = torch.Generator().manual_seed(seed)
    logits = (torch.randn(rows, words, generator=random) * spread + offset).to(dtype)
    bias = torch.randn(words, generator=random)
    labels = torch.randint(words, (rows,), generator=random)
    losses, slopes, sums = expected(logits, bias, labels)
    size = 10 + float(logits.double().abs().amax())  # of what is rounded
    bias_grad = torch.ones(words)
    loss, found = _slopes(logits, bias, labels, bias_grad)
    assert abs(float(loss) - float(losses.sum())) <= 3e-7 * rows * size + 1e-6 * float(losses.sum())
    assert found.dtype == dtype
    tolerance = {torch.float32: 2e-7 * size, torch.bfloat16: 4e-3, torch.float16: 1e-3}[dtype]
    assert (found.double() - slopes).abs().max() <= tolerance + 2e-7 * size
    assert (bias_grad.double() - 1 - sums).abs().max() <= 4e-7 * rows * size


@pytest.mark.parametrize("dtype", TYPES[:2])
def test_the_number_of_threads_changes_nothing(dtype: torch.dtype) -> None:
    before = torch.get_num_threads()
    logits = torch.randn(7, 2000).to(dtype)
    bias, labels = torch.randn(2000), torch.randint(2000, (7,))
    found = []
    try:
        for threads in (1, 3, 16):
            torch.set_num_threads(threads)
            sums = torch.zeros(2000)
            found.append((*_slopes(logits.clone(), bias, labels, sums), sums))
    finally:
        torch.set_num_threads(before)
    for loss, slopes, sums in found[1:]:
        assert torch.equal(loss, found[0][0]) and torch.equal(slopes, found[0][1])
        torch.testing.assert_close(sums, found[0][2], rtol=0, atol=1e-6)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_no_number_shows(dtype: torch.dtype, value: float) -> None:
    """The run is stopped for it; it must not be lost on the way."""
    logits = torch.randn(3, 1500).to(dtype)
    logits[1, 700] = value
    loss, _ = _slopes(logits, torch.zeros(1500), torch.tensor([5, 5, 5]), torch.zeros(1500))
    assert not loss.isfinite()


def test_the_same_bits_from_any_cache(tmp_path: Path) -> None:
    """A run that is resumed finds compiled code, or a part of it, where the first one compiled all of it."""
    program = """
import importlib, sys
from pathlib import Path
import torch
from mexma_cli.numerics import compiling
from mexma_cli.objectives import losses
compiling._FOLDERS = [Path(sys.argv[1])]
softmax_slopes = importlib.reload(losses).softmax_slopes
torch.manual_seed(0)
logits, bias, sums = torch.randn(64, 5003) * 3, torch.randn(5003), torch.zeros(5003)
found = softmax_slopes(logits, bias, torch.arange(64), sums)
print(found.tolist(), sums.tolist())
"""
    found = []
    for _ in range(2):
        found.append(Program(program, tmp_path).communicate()[0])
        outermost = [path for path in tmp_path.rglob("*") if "_slopes" in path.name]
        for path in outermost:
            path.unlink()
    assert outermost and found[0] == found[1] != ""
