"""The softmax over a vocabulary on a processor, by Numba: its loss and its slope in two walks over a row.

torch walks over all rows once for each of a dozen steps, and they are too long to stay in a cache. With
bfloat16 logits nothing as large as these exists in float32.
"""

from __future__ import annotations

import numpy as np
import torch

from mexma_cli.numerics.compiling import summing
from mexma_cli.numerics.kernels import plain, read, write
from mexma_cli.numerics.lanes import exponentials, largest
from mexma_cli.numerics.threads import each

BLOCK = 1024
"""Numbers that are in the nearest cache together."""


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
        part, blocks = slice(*bounds[number]), -(-logits.shape[1] // BLOCK)
        room = np.empty((blocks, BLOCK), np.float32)
        own = words[part], bias.numpy(), labels[part].numpy(), sums[number], losses[part].numpy()
        _slopes(*own, room, room.ravel())

    each(len(bounds), work)
    for own in sums:
        bias_grad += torch.from_numpy(own)
    return losses


@summing
def _slopes(words, bias, labels, bias_grad, losses, room, flat) -> None:  # pyrefly: ignore[implicit-any-parameter]
    """For each row; `room` is scratch, float32 [n, BLOCK], and `flat` the same memory."""
    row, rest = flat[: len(bias)], flat[len(bias) :]
    for i in range(len(words)):
        read(words[i], row)
        for j in range(len(row)):
            row[j] += bias[j]
        for j in range(len(rest)):
            rest[j] = -np.inf
        top, total = np.float32(-np.inf), np.float64(0)
        for block in range(len(room)):
            highest = largest(room, block, BLOCK)
            top = highest if highest > top else top
        target = row[labels[i]] - top
        for block in range(len(room)):
            total += exponentials(room, block, BLOCK, top, room)
        inverse = np.float32(1 / total)
        for j in range(len(row)):
            row[j] *= inverse
        row[labels[i]] -= np.float32(1)
        losses[i] = np.log(total) - target
        for j in range(len(row)):
            bias_grad[j] += row[j]
        write(row, words[i])
