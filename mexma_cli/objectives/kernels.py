"""The softmax over a vocabulary on a processor, by Numba: its loss and its slope in two walks over a row.

torch walks over all rows once for each of a dozen steps, and they are too long to stay in a cache. With
bfloat16 logits nothing as large as these exists in float32.
"""

from __future__ import annotations

import numpy as np
import torch

from mexma_cli.numerics.compiling import inlined, summing
from mexma_cli.numerics.kernels import exponentials, narrow, widen
from mexma_cli.numerics.threads import each

BLOCK = 1024
"""Numbers that are in the nearest cache together."""
LANES = 64
"""Running maxima side by side, so that they are vector instructions."""


def softmax_slopes(
    logits: torch.Tensor, bias: torch.Tensor, labels: torch.Tensor, bias_grad: torch.Tensor
) -> torch.Tensor:
    """Cross-entropy of each row; its slope, the softmax minus one-hot, takes the logits' place.

    Args:
        logits: float32 or bfloat16 [R, V] on the processor, without the bias; contiguous.
        bias: float32 [V].
        labels: int64 [R].
        bias_grad: float32 [V], to which the slopes' sum over the rows is added.

    Returns:
        float32 [R].
    """
    rows = logits if logits.dtype == torch.float32 else logits.view(torch.uint16)
    losses = torch.empty(len(logits))
    parts = np.array_split(np.arange(len(logits)), torch.get_num_threads())
    bounds = [(int(part[0]), int(part[-1]) + 1) for part in parts if len(part)]
    sums = np.zeros((len(bounds), logits.shape[1]), np.float32)

    def work(number: int) -> None:
        part = slice(*bounds[number])
        own = (rows[part].numpy(), bias.numpy(), labels[part].numpy(), sums[number], losses[part].numpy())
        (_slopes if rows is logits else _slopes_bf16)(*own)

    each(len(bounds), work)
    for own in sums:
        bias_grad += torch.from_numpy(own)
    return losses


@summing
def _slopes(
    logits: np.ndarray, bias: np.ndarray, labels: np.ndarray, bias_grad: np.ndarray, losses: np.ndarray
) -> None:
    for i in range(len(logits)):
        row = logits[i]
        for j in range(len(row)):
            row[j] += bias[j]
        losses[i] = _slope(row, labels[i])
        for j in range(len(row)):
            bias_grad[j] += row[j]


@summing
def _slopes_bf16(
    logits: np.ndarray, bias: np.ndarray, labels: np.ndarray, bias_grad: np.ndarray, losses: np.ndarray
) -> None:
    bits = np.empty(logits.shape[1], dtype=np.uint32)
    row = bits.view(np.float32)
    for i in range(len(logits)):
        low = logits[i]
        widen(low, bits)
        for j in range(len(low)):
            row[j] += bias[j]
        losses[i] = _slope(row, labels[i])
        for j in range(len(row)):
            bias_grad[j] += row[j]
        narrow(bits, low)


@inlined
def _slope(row: np.ndarray, label: int) -> np.float64:
    """The row becomes its softmax, less one at the label; the cross-entropy."""
    power = np.empty(BLOCK, dtype=np.int32)
    top = _largest(row)
    target = row[label] - top
    total = np.float64(0)
    for first in range(0, len(row), BLOCK):
        block = row[first : first + BLOCK]
        exponentials(block, top, power)
        total += _product(block, power.view(np.float32))
    inverse = np.float32(1 / total)
    for j in range(len(row)):
        row[j] *= inverse
    row[label] -= np.float32(1)
    return np.log(total) - target


@inlined
def _largest(row: np.ndarray) -> np.float32:
    lanes = np.full(LANES, -np.inf, dtype=np.float32)
    whole = len(row) // LANES * LANES
    for first in range(0, whole, LANES):
        part = row[first : first + LANES]
        for j in range(LANES):
            lanes[j] = part[j] if part[j] > lanes[j] else lanes[j]
    top = lanes[0]
    for values in (lanes, row[whole:]):
        for value in values:
            top = value if value > top else top
    return top


@inlined
def _product(block: np.ndarray, factors: np.ndarray) -> np.float32:
    """In place; the sum of the products."""
    total = np.float32(0)
    for j in range(len(block)):
        block[j] *= factors[j]
        total += block[j]
    return total
