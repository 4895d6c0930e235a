"""The softmax over a vocabulary on a processor, by Numba: its loss and its slope in two walks over a row.

torch walks over all rows once for each of a dozen steps, and they are too long to stay in a cache. With
bfloat16 logits nothing as large as these exists in float32.
"""

from __future__ import annotations

import numpy as np
import torch

from mexma_cli.numerics.compiling import inlined, summing
from mexma_cli.numerics.kernels import exponentials, plain, read, write
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
    words, losses = plain(logits), torch.empty(len(logits))
    parts = np.array_split(np.arange(len(logits)), torch.get_num_threads())
    bounds = [(int(part[0]), int(part[-1]) + 1) for part in parts if len(part)]
    sums = np.zeros((len(bounds), logits.shape[1]), np.float32)

    def work(number: int) -> None:
        part, room = slice(*bounds[number]), np.empty(logits.shape[1] + LANES, np.float32)
        own = words[part], bias.numpy(), labels[part].numpy(), sums[number], losses[part].numpy()
        _slopes(*own, room)

    each(len(bounds), work)
    for own in sums:
        bias_grad += torch.from_numpy(own)
    return losses


@summing
def _slopes(words, bias, labels, bias_grad, losses, room) -> None:  # type: ignore[no-untyped-def]
    row, lanes = room[: len(bias)], room[len(bias) :]
    for i in range(len(words)):
        read(words[i], row)
        for j in range(len(row)):
            row[j] += bias[j]
        top = _largest(row, lanes)
        target, total = row[labels[i]] - top, np.float64(0)
        for first in range(0, len(row), BLOCK):
            total += exponentials(row[first : first + BLOCK], top)
        inverse = np.float32(1 / total)
        for j in range(len(row)):
            row[j] *= inverse
        row[labels[i]] -= np.float32(1)
        losses[i] = np.log(total) - target
        for j in range(len(row)):
            bias_grad[j] += row[j]
        write(row, words[i])


@inlined
def _largest(row: np.ndarray, lanes: np.ndarray) -> np.float32:
    whole = len(row) // LANES * LANES
    for j in range(LANES):
        lanes[j] = -np.inf
    for first in range(0, whole, LANES):
        part = row[first : first + LANES]
        for j in range(LANES):
            lanes[j] = part[j] if part[j] > lanes[j] else lanes[j]
    top = np.float32(-np.inf)
    for values in (lanes, row[whole:]):
        for value in values:
            top = value if value > top else top
    return top
