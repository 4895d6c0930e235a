"""The forward pass of BERT's family on a processor, for embedding: the model's weights and results, faster.

What makes it faster than the model's own code: products on weights that are packed for them beforehand, in
bfloat16 with float32 sums, residuals and norms where that is asked for; query, key and value in one product;
residual, LayerNorm and rounding in one walk over memory; and a last layer that computes only the tokens that
the pooling reads. Training and other devices run the unmodified model (`attention.py`); both are compared in
the tests.
"""

from __future__ import annotations

from itertools import groupby
from typing import Any

import numpy as np
import torch
from torch.nn.functional import layer_norm, pad, scaled_dot_product_attention
from transformers import BertModel, CamembertModel, PreTrainedModel, RobertaModel, XLMRobertaModel

from mexma_cli.encoder.kernels import add_norm, add_norm_bf16
from mexma_cli.encoder.packing import PackedBatch
from mexma_cli.encoder.spelling import word_embeddings

SUPPORTED = (BertModel, CamembertModel, RobertaModel, XLMRobertaModel)
ROWS = 64
"""Products have a multiple of so many rows: oneDNN compiles and keeps a kernel for every size it meets."""


class Engine:
    """A model's inference forward, with packed copies of its layers' weights (`stale` if they have changed).

    Args:
        model: One of `SUPPORTED`, float32, on the processor.
        dtype: float32 or bfloat16, what products are computed in. Sums, residuals and norms are float32.
    """

    def __init__(self, model: PreTrainedModel, dtype: torch.dtype) -> None:
        assert type(model) in SUPPORTED and dtype in (torch.float32, torch.bfloat16)
        assert model.dtype == torch.float32 and model.device.type == "cpu"
        self.dtype = dtype
        self._model: Any = model
        self._versions = _versions(model)
        with torch.no_grad():
            self._layers = [_Layer(layer, dtype) for layer in model.encoder.layer]

    @property
    def stale(self) -> bool:
        """Whether a weight of the model was changed since the engine was made."""
        return self._versions != _versions(self._model)

    @torch.inference_mode()
    def hidden(self, batch: PackedBatch, first_only: bool) -> torch.Tensor:
        """Last hidden states.

        Args:
            first_only: Only those of each sentence's first token, which spares most of the last layer.

        Returns:
            float32 [T, D], or [B, D] with `first_only`.
        """
        x = self._embed(batch)
        low = x if self.dtype == torch.float32 else x.to(self.dtype)
        for layer in self._layers[:-1]:
            layer(x, low, batch.lengths)
        first = pad(batch.cu_seqlens[:-1].long(), (0, -len(batch.lengths) % ROWS)) if first_only else None
        x = self._layers[-1](x, low, batch.lengths, first)
        return x[: len(batch.lengths) if first_only else len(batch.input_ids)]

    def _embed(self, batch: PackedBatch) -> torch.Tensor:
        parts = self._model.embeddings
        ids, positions = (
            pad(tensor, (0, -len(tensor) % ROWS)) for tensor in (batch.input_ids, batch.position_ids)
        )
        x = word_embeddings(parts.word_embeddings.weight, ids, batch.spelled)
        x += parts.token_type_embeddings.weight[0]
        x += parts.position_embeddings.weight[positions]
        norm = parts.LayerNorm
        return layer_norm(x, norm.normalized_shape, norm.weight, norm.bias, norm.eps)


class _Layer:
    """One layer; `x` float32 [T, D] and `low`, the same in the type of the products, are changed in place."""

    def __init__(self, layer: Any, dtype: torch.dtype) -> None:
        attention, output = layer.attention.self, layer.attention.output
        self.heads = attention.num_attention_heads
        # The softmax's scale goes into the queries.
        scale = attention.attention_head_size**-0.5
        projections = (attention.query, attention.key, attention.value)
        weights, biases = ([getattr(p, name) for p in projections] for name in ("weight", "bias"))
        self.project = _Linear(
            torch.cat([weights[0] * scale, *weights[1:]]), torch.cat([biases[0] * scale, *biases[1:]]), dtype
        )
        self.mix = _Linear(output.dense.weight, output.dense.bias, dtype)
        self.up = _Linear(layer.intermediate.dense.weight, layer.intermediate.dense.bias, dtype)
        self.activation = layer.intermediate.intermediate_act_fn
        self.down = _Linear(layer.output.dense.weight, layer.output.dense.bias, dtype)
        self.norms = [_Norm(output.LayerNorm), _Norm(layer.output.LayerNorm)]

    def __call__(
        self, x: torch.Tensor, low: torch.Tensor, lengths: tuple[int, ...], first: torch.Tensor | None = None
    ) -> torch.Tensor:
        """The new `x`; with `first` (int64 [B]) only its rows at these places, each a sentence's first."""
        context = self._attend(self.project(low), lengths, first is not None)
        if first is not None:
            exact = x is low
            x = x[first]
            low = x if exact else low[first]
        self.norms[0](x, self.mix(context), low)
        self.norms[1](x, self.down(self.activation(self.up(low))), low)
        return x

    def _attend(self, projected: torch.Tensor, lengths: tuple[int, ...], first_only: bool) -> torch.Tensor:
        """Attention within each sentence, by runs of equal length; zeros in the rows that fill up."""
        width = projected.shape[1] // 3
        rows = -(-len(lengths) // ROWS) * ROWS if first_only else len(projected)
        context, at, done = projected.new_zeros(rows, width), 0, 0
        for length, group in groupby(lengths):
            count = len(list(group))
            run = projected[at : at + count * length].view(count, length, 3, self.heads, width // self.heads)
            q, k, v = run.permute(2, 0, 3, 1, 4)
            attended = scaled_dot_product_attention(q[:, :, :1] if first_only else q, k, v, scale=1.0)
            size = count if first_only else count * length
            context[done : done + size] = attended.transpose(1, 2).reshape(size, width)
            at, done = at + count * length, done + size
        return context


class _Linear:
    """A product with packed weights where torch's oneDNN has them, else torch's own."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor, dtype: torch.dtype) -> None:
        self.weight = weight.detach().to(dtype).contiguous()
        self.bias = bias.detach().to(dtype)
        self.packed = _packs(dtype)
        if self.packed:
            self.weight = torch.ops.mkldnn._reorder_linear_weight(self.weight)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        if self.packed:
            return torch.ops.mkldnn._linear_pointwise(x, self.weight, self.bias, "none", [], "")
        return torch.nn.functional.linear(x, self.weight, self.bias)


class _Norm:
    """``x = LayerNorm(x + y)`` in place, and `low` with it."""

    def __init__(self, norm: torch.nn.LayerNorm) -> None:
        self.weight = norm.weight.detach().numpy()
        self.bias = norm.bias.detach().numpy()
        self.eps = np.float32(norm.eps)

    def __call__(self, x: torch.Tensor, y: torch.Tensor, low: torch.Tensor) -> None:
        if low is x:
            add_norm(x.numpy(), y.numpy(), self.weight, self.bias, self.eps)
        else:
            bits = (tensor.view(torch.uint16).numpy() for tensor in (y, low))
            add_norm_bf16(x.numpy(), next(bits), self.weight, self.bias, self.eps, next(bits))


def computes_bf16_fast() -> bool:
    """Whether this processor has instructions for products of bfloat16 numbers."""
    return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()


def _packs(dtype: torch.dtype) -> bool:
    if not (torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")):
        return False
    return dtype == torch.float32 or torch.ops.mkldnn._is_mkldnn_bf16_supported()


def _versions(model: PreTrainedModel) -> list[tuple[int, int]]:
    return [(parameter.data_ptr(), parameter._version) for parameter in model.parameters()]
