"""The modules after the transformer: pooling, then sentence-transformers' Dense and Normalize."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from mexma_cli.encoder.model.families import FIRST_ONLY, Pooling
from mexma_cli.encoder.model.packing import PackedBatch
from mexma_cli.errors import MexmaError


class Dense(torch.nn.Module):
    """A linear layer and its activation, float32 [B, in] to [B, out]."""

    def __init__(self, linear: torch.nn.Linear, activation: torch.nn.Module) -> None:
        super().__init__()
        self.linear = linear
        self.activation = activation

    def forward(self, vectors: torch.Tensor) -> torch.Tensor:
        """The activation of the linear layer's result, [B, out]."""
        return self.activation(self.linear(vectors))

    def __repr__(self) -> str:
        kind = type(self.activation).__name__
        return f"Dense({self.linear.in_features}, {self.linear.out_features}, {kind})"


class Normalize(torch.nn.Module):
    """Vectors to unit length."""

    def forward(self, vectors: torch.Tensor) -> torch.Tensor:
        """Vectors of length 1 in the same directions, float32 [B, dim]."""
        return torch.nn.functional.normalize(vectors, dim=-1)


def pool(hidden: torch.Tensor, batch: PackedBatch, pooling: Pooling) -> torch.Tensor:
    """Sentence vectors [B, dim] from packed hidden states [T, dim], as sentence-transformers pools them.

    `cls`: the first token; `pooler` too: its layer is the first of the encoder's modules. `lasttoken`: the
    last one. `mean` and `max` of all tokens; `weightedmean`: token i, from 1, counts i times in the mean.
    """
    if pooling == "lasttoken":
        return hidden[batch.cu_seqlens[1:].long() - 1]
    if pooling in FIRST_ONLY:
        return hidden[batch.cu_seqlens[:-1].long()]
    # From tensors on the device, and with the result's size stated, so that nothing waits for the device.
    lengths = batch.cu_seqlens.diff().long()
    rows = torch.arange(len(lengths), device=hidden.device)
    rows = rows.repeat_interleave(lengths, output_size=len(hidden))
    sums = torch.zeros(len(lengths), hidden.shape[1], dtype=hidden.dtype, device=hidden.device)
    if pooling == "max":
        return sums.scatter_reduce(0, rows[:, None].expand_as(hidden), hidden, "amax", include_self=False)
    if pooling == "weightedmean":
        places = torch.arange(len(hidden), device=hidden.device) - batch.cu_seqlens[:-1].long()[rows] + 1
        return sums.index_add(0, rows, hidden * places[:, None]) / (lengths * (lengths + 1) / 2)[:, None]
    return sums.index_add(0, rows, hidden) / lengths[:, None]


def check_widths(name: str, width: int, modules: Sequence[torch.nn.Module]) -> None:
    """Refuse a Dense module of the encoder `name` that does not take the vectors that come to it, from hidden
    states of this width on."""
    for module in modules:
        if isinstance(module, Dense):
            if module.linear.in_features != width:
                raise MexmaError(f"{name!r}: {module} does not take vectors of {width} numbers")
            width = module.linear.out_features
