"""A faster forward pass of BERT's family on a processor, for embedding.

It has the results of the model's own code, to which the tests compare it, and is faster for these reasons.
Weights are packed for products beforehand. Products are bfloat16 if that is asked for, while sums, residuals
and norms stay float32. Query, key and value are one product. Attention is one pass over memory
(`forward_attention`), and so are residual, LayerNorm and rounding. The last layer computes only the tokens
that the pooling reads. GPUs run the unmodified model (`attention`), and training has its own layers
(`training.layers`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from torch.nn.functional import gelu, layer_norm, linear, pad, relu

from mexma_cli.encoder.model.forward_attention import attend
from mexma_cli.encoder.model.packing import PackedBatch, token_embeddings
from mexma_cli.encoder.model.transformer import Weights
from mexma_cli.numerics.kernels import add_norm, plain
from mexma_cli.numerics.torch_private import has_onednn, onednn_linear, packed

ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "gelu": gelu,
    "gelu_new": partial(gelu, approximate="tanh"),
    "relu": relu,
}
_ONEDNN = {"gelu": ("gelu", "none"), "gelu_new": ("gelu", "tanh"), "relu": ("relu", "")}
"""The activations' names and algorithms in oneDNN."""
ROWS = 64
"""Products are padded to a multiple of so many rows: oneDNN compiles and keeps a kernel for each size."""


class Engine:
    """The forward pass of weights that fit (`fits_engine`), with packed copies of them as they are when this
    is made. Products are float32 or bfloat16; sums, residuals and norms are float32."""

    def __init__(self, transformer: Weights, dtype: torch.dtype) -> None:
        assert transformer.fits_engine and dtype in (torch.float32, torch.bfloat16)
        self.dtype = dtype
        config, weights = transformer.config, transformer.weights
        self._eps = float(config.layer_norm_eps)
        self._tables = _below(weights, "embeddings.")
        with torch.no_grad():
            self._layers = [
                _Layer(_below(weights, f"encoder.layer.{i}."), config, dtype)
                for i in range(config.num_hidden_layers)
            ]

    @torch.inference_mode()
    def hidden(self, batch: PackedBatch, first_only: bool) -> torch.Tensor:
        """Last hidden states, float32 [T, D]; with `first_only` those of each sentence's first token, [B, D],
        which saves most of the last layer."""
        x = self._embed(batch)
        low = x if self.dtype == torch.float32 else x.to(self.dtype)
        for layer in self._layers[:-1]:
            layer(x, low, batch.lengths)
        first = pad(batch.cu_seqlens[:-1].long(), (0, -len(batch.lengths) % ROWS)) if first_only else None
        x = self._layers[-1](x, low, batch.lengths, first)
        return x[: len(batch.lengths) if first_only else len(batch.input_ids)]

    def _embed(self, batch: PackedBatch) -> torch.Tensor:
        tables = self._tables
        ids, positions = (
            pad(tensor, (0, -len(tensor) % ROWS)) for tensor in (batch.input_ids, batch.position_ids)
        )
        x = token_embeddings(tables["word_embeddings.weight"], ids, batch.extra_embeddings)
        x += tables["token_type_embeddings.weight"][0]
        x += tables["position_embeddings.weight"][positions]
        weight, bias = tables["LayerNorm.weight"], tables["LayerNorm.bias"]
        return layer_norm(x, weight.shape, weight, bias, self._eps)


class _Layer:
    """One layer. It changes in place `x`, float32 [T, D], and `low`, the same in the type of products."""

    def __init__(self, weights: Mapping[str, torch.Tensor], config: Any, dtype: torch.dtype) -> None:
        self.heads = config.num_attention_heads
        # Queries are scaled here, so that the softmax need not be.
        scale = (config.hidden_size // self.heads) ** -0.5
        query, *others = (_below(weights, f"attention.self.{name}.") for name in ("query", "key", "value"))
        projections = [{name: value * scale for name, value in query.items()}, *others]
        self.project = Linear(
            {name: torch.cat([part[name] for part in projections]) for name in ("weight", "bias")}, dtype
        )
        self.mix, self.up, self.down = (
            Linear(_below(weights, f"{name}.dense."), dtype, activation)
            for name, activation in (
                ("attention.output", None),
                ("intermediate", config.hidden_act),
                ("output", None),
            )
        )
        self.norms = [
            _Norm(_below(weights, f"{name}.LayerNorm."), config.layer_norm_eps)
            for name in ("attention.output", "output")
        ]

    def __call__(
        self, x: torch.Tensor, low: torch.Tensor, lengths: tuple[int, ...], first: torch.Tensor | None = None
    ) -> torch.Tensor:
        """The new `x`; with `first`, int64 [B], only these rows, the first tokens of sentences."""
        context = attend(self.project(low), self.heads, lengths, first is not None)
        if first is not None:
            context = pad(context, (0, 0, 0, len(first) - len(context)))
            exact = x is low
            x = x[first]
            low = x if exact else low[first]
        self.norms[0](x, self.mix(context), low)
        self.norms[1](x, self.down(self.up(low)), low)
        return x


class Linear:
    """A linear layer and one of `ACTIVATIONS`, if any, with weights packed by oneDNN if this torch has that;
    oneDNN computes the activation before it rounds results."""

    def __init__(
        self, parts: Mapping[str, torch.Tensor], dtype: torch.dtype, activation: str | None = None
    ) -> None:
        self.activation = activation
        self.weight = parts["weight"].to(dtype).contiguous()
        self.bias = parts["bias"].to(dtype)
        self.packed = has_onednn(dtype)
        if self.packed:
            self.weight = packed(self.weight)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        if self.packed:
            name, algorithm = _ONEDNN[self.activation] if self.activation else ("none", "")
            return onednn_linear(x, self.weight, self.bias, name, algorithm)
        made = linear(x, self.weight, self.bias)
        return ACTIVATIONS[self.activation](made) if self.activation else made


class _Norm:
    """``x = LayerNorm(x + y)`` in place, and the same for `low`."""

    def __init__(self, parts: Mapping[str, torch.Tensor], eps: float) -> None:
        self.weight, self.bias = parts["weight"].numpy(), parts["bias"].numpy()
        self.numbers = np.float32(eps), np.float32(0), np.uint32(0)

    def __call__(self, x: torch.Tensor, y: torch.Tensor, low: torch.Tensor) -> None:
        given = x.numpy(), plain(y), self.weight, self.bias
        found = x.numpy(), plain(x[:0] if low is x else low), np.empty((len(x), 2), np.float32)
        add_norm((0, len(x)), given, self.numbers, found, np.ones((2, x.shape[1]), np.float32))


def _below(weights: Mapping[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    """The weights whose names begin with a prefix, by the rest of their names."""
    return {name.removeprefix(prefix): value for name, value in weights.items() if name.startswith(prefix)}
