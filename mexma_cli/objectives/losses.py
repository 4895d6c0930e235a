"""The losses, as pure functions of tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.nn import functional

from mexma_cli.numerics.compiling import summing
from mexma_cli.numerics.kernels import plain, read, write
from mexma_cli.numerics.lanes import exponentials, largest
from mexma_cli.numerics.threads import each
from mexma_cli.objectives.gather import global_mean

KOLEO_CLOSEST = 1e-3
"""A float32 cosine tells distances between unit vectors apart down to sqrt(2 * 2**-24) = 0.00035, so below
this the way out is noise; without a limit its slope would be any number (the authors' code: up to 1e8)."""
CHUNK_ROWS = 512
"""Masked tokens whose logits exist at once."""
BLOCK_WORDS = 1 << 13
"""Words whose gradient from those tokens exists at once, beside the sum over all tokens."""
BLOCK = 1024
"""Numbers of a row of logits that are in the nearest cache together."""


def alignment(source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Mean squared error between the sentence vectors of both sides (paper section 3).

    Args:
        source, target: [B, dim], not normalised, as in the authors' code.
    """
    return functional.mse_loss(source.float(), target.float())


def koleo(
    vectors: torch.Tensor, identities: torch.Tensor | None = None, normalise: bool = True
) -> torch.Tensor:
    """Kozachenko-Leonenko entropy estimator: minus the mean log distance to the nearest neighbour.

    As in the authors' code the vectors are normalised first, which the paper leaves out. Two things are
    not theirs: a sentence is no neighbour of itself where a batch has it twice, since no training could
    part the two; and below `KOLEO_CLOSEST` the logarithm goes on as its tangent, so that vectors that
    have fallen together are pushed apart with a bounded force. Elsewhere the numbers are the authors'.

    Args:
        vectors: [B, dim]. Rows without a neighbour do not count; if none has one the loss is 0.
        identities: int64 [B], equal for equal sentences; None: all differ.
        normalise: False leaves the vectors as they are, which is what the paper writes.
    """
    count = len(vectors)
    with torch.autocast(vectors.device.type, enabled=False):
        unit = functional.normalize(vectors.float(), dim=-1) if normalise else vectors.float()
        with torch.no_grad():
            same = torch.eye(count, dtype=torch.bool, device=vectors.device)
            if identities is not None:
                same = identities[:, None] == identities[None]
            products = unit @ unit.T
            if not normalise:  # 2xy - yy orders the rows y as the distance to x does
                products = 2 * products - products.diagonal()
            similarity, nearest = products.masked_fill(same, -torch.inf).max(dim=1)
            counts = similarity > -torch.inf
        distance = torch.linalg.vector_norm(unit - unit[nearest], dim=1)
        log = distance.clamp_min(KOLEO_CLOSEST).log() + (distance / KOLEO_CLOSEST - 1).clamp_max(0)
        return -(log * counts).sum() / counts.sum().clamp_min(1)


def info_nce(
    source: torch.Tensor,
    target: torch.Tensor,
    temperature: float,
    repeated: torch.Tensor,
    margin: float = 0.0,
    symmetric: bool = True,
) -> torch.Tensor:
    """InfoNCE over the batch: the translation against every other sentence of its side.

    van den Oord et al. 2019; with a margin it is LaBSE's additive margin softmax (Feng et al. 2022).

    Args:
        source, target: [B, dim]; row i of both are translations.
        temperature: Cosines are divided by it.
        repeated: bool [B, B], pairs that are not each other's negatives.
        margin: Taken from the cosine of each translation.
        symmetric: The mean of both directions, else source to target alone.
    """
    with torch.autocast(source.device.type, enabled=False):
        source = functional.normalize(source.float(), dim=-1)
        target = functional.normalize(target.float(), dim=-1)
        cosines = source @ target.T
        if margin:
            cosines = cosines - margin * torch.eye(len(cosines), device=cosines.device)
        logits = (cosines / temperature).masked_fill(repeated, -torch.inf)
        labels = torch.arange(len(logits), device=logits.device)
        forward = functional.cross_entropy(logits, labels)
        if not symmetric:
            return forward
        return (forward + functional.cross_entropy(logits.T, labels)) / 2


def hard_negatives(
    source: torch.Tensor,
    target: torch.Tensor,
    negatives: torch.Tensor,
    pairs: torch.Tensor,
    temperature: float,
) -> torch.Tensor:
    """The translation against its own hard negatives: the second half of a split softmax.

    Omnilingual SONAR (arXiv 2603.16606), equation 5: (1 - g) times InfoNCE over the batch, plus g times

        mean over i of -log(exp s(x_i, y_i) / (exp s(x_i, y_i) + sum of exp s(x_i, h) over i's own h)),

    s being the cosine over the temperature. In a softmax of their own they need not compete with the whole
    batch, and no margin is taken. A pair without hard negatives adds 0 to the mean.

    Args:
        source, target: [B, dim]; row i of both are translations.
        negatives: [H, dim].
        pairs: int64 [H], which row each is a hard negative of.
        temperature: Cosines are divided by it.
    """
    with torch.autocast(source.device.type, enabled=False):
        source, target, negatives = (
            functional.normalize(side.float(), dim=-1) for side in (source, target, negatives)
        )
        # -log(e^a / (e^a + sum of e^b)) = log(1 + sum of e^(b - a))
        above = ((negatives - target[pairs]) * source[pairs]).sum(dim=-1) / temperature
        top = source.new_zeros(len(source)).scatter_reduce(0, pairs, above.detach(), "amax")
        sums = (-top).exp().index_add(0, pairs, (above - top[pairs]).exp())
        return (top + sums.log()).mean()


def cosine_distance(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Mean of 1 - cosine over the rows: both terms of CLFT, and torch's CosineEmbeddingLoss with label 1.

    Args:
        left, right: [B, dim].
    """
    with torch.autocast(left.device.type, enabled=False):
        return (1 - functional.cosine_similarity(left.float(), right.float(), dim=-1)).mean()


def unmasking(
    hidden: torch.Tensor, vocabulary: torch.Tensor, bias: torch.Tensor, labels: torch.Tensor
) -> torch.Tensor:
    """Mean cross-entropy over the masked tokens of all processes (paper section 3); 0 where there are none.

    Logits are made for a few rows at a time and their gradients with them, so that M x V numbers never
    exist at once: at 32,000 tokens that is most of the memory and half of the time of a step on a CPU.
    What it takes beside its arguments does not grow with M (but for `hidden`'s gradient): the gradient of
    the vocabulary, which is there anyway after the step, and a chunk of logits (off the processor one more
    in float32).

    Args:
        hidden: [M, dim] at masked positions only.
        vocabulary: [V, dim], the word embeddings.
        bias: [V].
        labels: int64 [M], the tokens that stood there.
    """
    dtype = hidden.dtype
    if torch.is_autocast_enabled(hidden.device.type):
        dtype = torch.get_autocast_dtype(hidden.device.type)
    total: torch.Tensor = _ChunkedCrossEntropy.apply(hidden, vocabulary, bias, labels, dtype)
    return global_mean(total, len(labels))


class _ChunkedCrossEntropy(torch.autograd.Function):
    """Linear layer and summed cross-entropy in one, gradients computed on the way forward."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: torch.Tensor,
        vocabulary: torch.Tensor,
        bias: torch.Tensor,
        labels: torch.Tensor,
        dtype: torch.dtype,
    ) -> torch.Tensor:
        weight, rows = vocabulary.to(dtype), hidden.to(dtype)
        wants_hidden, wants_weight = hidden.requires_grad, vocabulary.requires_grad
        hidden_grad = torch.empty_like(hidden) if wants_hidden else None
        # The first chunk writes it: to fill it with zeros takes as long as to add one.
        new = torch.empty_like if len(labels) else torch.zeros_like
        weight_grad = new(vocabulary) if wants_weight else None
        bias_grad = torch.zeros_like(bias)
        total = torch.zeros((), dtype=torch.float32, device=hidden.device)
        # A copy, since FSDP could not free what NumPy has seen.
        own_bias = bias.detach().float().clone()
        # Of one size, whatever M is, so that memory which is kept for the next step fits it.
        logits = rows.new_empty(CHUNK_ROWS, len(weight))
        for start in range(0, len(labels), CHUNK_ROWS):
            chunk, wanted = rows[start : start + CHUNK_ROWS], labels[start : start + CHUNK_ROWS]
            found, low = _slopes(
                torch.mm(chunk, weight.T, out=logits[: len(chunk)]), own_bias, wanted, bias_grad
            )
            total += found
            if hidden_grad is not None:
                hidden_grad[start : start + CHUNK_ROWS] = low @ weight
            if weight_grad is not None:
                for first in range(0, len(weight), BLOCK_WORDS):
                    block = slice(first, first + BLOCK_WORDS)
                    of_block = low[:, block].T @ chunk
                    if start:
                        weight_grad[block] += of_block
                    else:
                        weight_grad[block] = of_block
        ctx.grads = (hidden_grad, weight_grad, bias_grad)
        return total

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        # In place, since each may be as large as the vocabulary: a second pass backward would be wrong.
        assert ctx.grads is not None, "the gradients of the unmasking loss have been used up"
        scaled = [None if kept is None else kept.mul_(grads[0]) for kept in ctx.grads]
        ctx.grads = None
        return (*scaled, None, None)


def _slopes(
    logits: torch.Tensor, bias: torch.Tensor, labels: torch.Tensor, bias_grad: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Summed cross-entropy of logits [R, V] plus bias [V]; and its slope, softmax minus one-hot.

    The slope has the logits' type. Its sum over the rows is added to `bias_grad`, float32 [V].
    """
    if logits.device.type == "cpu" and logits.dtype in (torch.float32, torch.bfloat16):
        return softmax_slopes(logits, bias, labels, bias_grad).sum(), logits
    slope = logits.float().add_(bias)
    slope.sub_(slope.amax(dim=1, keepdim=True))
    target = slope.gather(1, labels[:, None])
    norm = slope.exp_().sum(dim=1, keepdim=True)
    slope.div_(norm).scatter_add_(1, labels[:, None], torch.full_like(norm, -1.0))
    bias_grad += slope.sum(dim=0)
    return (norm.log() - target).sum(), slope.to(logits.dtype)


def softmax_slopes(
    logits: torch.Tensor, bias: torch.Tensor, labels: torch.Tensor, bias_grad: torch.Tensor
) -> torch.Tensor:
    """Cross-entropy of each row; its slope, the softmax minus one-hot, takes the logits' place.

    In two walks over a row, by Numba: torch walks over all rows once for each of a dozen steps, and they are
    too long to stay in a cache. With bfloat16 logits nothing as large as these exists in float32.

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
        _row_slopes(*own, room, room.ravel())

    each(len(bounds), work)
    for own in sums:
        bias_grad += torch.from_numpy(own)
    return losses


@summing
def _row_slopes(words, bias, labels, bias_grad, losses, room, flat) -> None:  # pyrefly: ignore[implicit-any-parameter]
    """The slopes of each row; `room` is scratch, float32 [n, BLOCK], and `flat` the same memory."""
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
