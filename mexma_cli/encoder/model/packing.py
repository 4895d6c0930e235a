"""Sentences without padding: the batch that every run of a transformer takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch


class OfTensors:
    """A dataclass of tensors, and of others of its kind; what else it has stays on the host."""

    def to(self, device: torch.device | str) -> Self:
        """A copy of it on another device."""
        own: Any = self
        moved: dict[str, Any] = {}
        for name, value in vars(own).items():
            if isinstance(value, torch.Tensor):
                moved[name] = value.to(device, non_blocking=True)
            elif isinstance(value, OfTensors):
                moved[name] = value.to(device)
        return replace(own, **moved)


@dataclass(frozen=True)
class PackedBatch(OfTensors):
    """B sentences of T tokens in all, one after the other.

    Attributes:
        input_ids: int64 [T].
        position_ids: int64 [T], from the model's first position on.
        cu_seqlens: int32 [B + 1], where each sentence starts and the last one ends.
        lengths: The B lengths in tokens, on the host, so that nothing waits for the device.
        extra_embeddings: float32 [R, dim]. The id vocabulary size + i stands for row i: a word that is no
            token of the vocabulary (see `ngrams`). None if the batch has no such ids.
    """

    input_ids: torch.Tensor
    position_ids: torch.Tensor
    cu_seqlens: torch.Tensor
    lengths: tuple[int, ...]
    extra_embeddings: torch.Tensor | None = None

    def part(self, first: int, last: int) -> PackedBatch:
        """Sentences `first` to `last`."""
        start, stop = sum(self.lengths[:first]), sum(self.lengths[:last])
        return PackedBatch(
            self.input_ids[start:stop],
            self.position_ids[start:stop],
            self.cu_seqlens[first : last + 1] - start,
            self.lengths[first:last],
            self.extra_embeddings,
        )


def pack(
    sentences: Sequence[np.ndarray],
    first_position: int,
    extra_embeddings: np.ndarray | torch.Tensor | None = None,
) -> PackedBatch:
    """Put token id arrays (with their <s> and </s>) one after the other, in the order given.

    Attention is fastest where neighbours have the same length: sort by length first.

    Args:
        sentences: B integer arrays, none empty.
        first_position: The model's position of a sentence's first token (2 for XLM-R, 0 for BERT). In XLM-R
            the id and position before it are padding's, which is not counted where text has it (`<pad>`).
        extra_embeddings: As the batch has it.
    """
    lengths = np.fromiter((len(sentence) for sentence in sentences), dtype=np.int64, count=len(sentences))
    assert len(lengths) and lengths.min() > 0, "a packed sentence has at least one token"
    ends = np.cumsum(lengths)
    starts = ends - lengths
    ids = np.concatenate(sentences).astype(np.int64)
    positions = np.arange(ends[-1]) - np.repeat(starts, lengths) + first_position
    if first_position and (padding := ids == first_position - 1).any():
        before = np.cumsum(padding) - padding
        positions -= before - np.repeat(before[starts], lengths)
        positions[padding] = first_position - 1
    return PackedBatch(
        torch.from_numpy(ids),
        torch.from_numpy(positions),
        torch.from_numpy(np.concatenate([[0], ends]).astype(np.int32)),
        tuple(lengths.tolist()),
        None if extra_embeddings is None else torch.as_tensor(extra_embeddings),
    )


def by_token_budget(lengths: Sequence[int] | np.ndarray, budget: int) -> Iterator[np.ndarray]:
    """Cut sentences into batches of at most `budget` tokens, longest first: int64 arrays of rows, each in
    exactly one. A sentence above the budget stands alone."""
    lengths = np.asarray(lengths)
    order = np.argsort(-lengths, kind="stable")
    start, tokens = 0, 0
    for place, row in enumerate(order):
        if place > start and tokens + lengths[row] > budget:
            yield order[start:place]
            start, tokens = place, 0
        tokens += int(lengths[row])
    if start < len(order):
        yield order[start:]


def token_embeddings(vocabulary: torch.Tensor, ids: torch.Tensor, extra: torch.Tensor | None) -> torch.Tensor:
    """The token embeddings [..., D] of ids [...]; ids above the vocabulary [V, D] are rows of `extra`."""
    if extra is None:
        return vocabulary[ids]
    size = len(vocabulary)
    embeddings = vocabulary[ids.clamp(max=size - 1)]
    above = ids >= size
    embeddings[above] = extra.to(embeddings)[ids[above] - size]
    return embeddings
