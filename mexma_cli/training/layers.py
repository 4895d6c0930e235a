"""The layers of BERT's family on a processor, for training: transformers' in fewer walks over memory.

Query, key and value are one product. Dropout, residual and LayerNorm are one operation, forward and back
(`add_norm`); it gives states twice, in float32 for the next residual and in the type of products for the next
product. A product adds its bias itself, where torch's copies it first and is a fifth slower.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.autograd.function import once_differentiable
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import BaseModelOutputWithPastAndCrossAttentions as Output

from mexma_cli.encoder.model.attention import bucketed
from mexma_cli.encoder.model.engine import has_onednn
from mexma_cli.encoder.model.families import FAMILIES
from mexma_cli.training.add_norm import add_norm

_ENCODERS = {family.model.replace("Model", "Encoder") for family in FAMILIES.values() if family.is_bert}


def use_fast_layers(module: nn.Module) -> None:
    """Let all of transformers' encoders of BERT's family in a module compute by `Encoder`, from packed
    sentences in float32 or bfloat16; nothing else about them changes."""
    for part in module.modules():
        kind = type(part)
        if kind.__name__ in _ENCODERS and kind.__module__.startswith("transformers.models."):
            part.__class__ = Encoder
            assert isinstance(part, Encoder)
            for layer in part.layer:
                layer.__class__ = Layer


class Encoder(nn.Module):
    """The layers one after the other; products are of autocast's type."""

    layer: nn.ModuleList

    def forward(self, hidden_states: torch.Tensor, *_: Any, packed: tuple[Any, ...], **__: Any) -> Output:
        """The last states of packed sentences, float32 [1, T, D]."""
        dtype = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else hidden_states.dtype
        with torch.autocast("cpu", enabled=False):
            states = hidden_states[0]
            low = states.to(dtype)
            for layer in self.layer:
                states, low = layer(states, low, packed[0])
        return Output(last_hidden_state=states[None])


class Layer(GradientCheckpointingLayer):
    """One layer, by the modules and weights of transformers'."""

    attention: Any
    intermediate: Any
    output: Any

    def forward(
        self, states: torch.Tensor, low: torch.Tensor, lengths: tuple[int, ...]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The new states, float32 [T, D], and the same in the type of products."""
        inner = self.attention.self
        projected = _product(low, inner.query, inner.key, inner.value)
        parts = projected.view(len(low), 3, inner.num_attention_heads, inner.attention_head_size)
        dropout = inner.dropout.p if self.training else 0.0
        context = bucketed(parts, lengths, inner.scaling, dropout).flatten(1)
        states, low = _closed(self.attention.output, states, context)
        wide = self.intermediate.intermediate_act_fn(_product(low, self.intermediate.dense))
        return _closed(self.output, states, wide)


def _closed(output: Any, states: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The end of either half of a layer: product, dropout, residual, LayerNorm."""
    share = output.dropout.p if output.training else 0.0
    return add_norm(states, _product(x, output.dense), output.LayerNorm, share)


def _product(x: torch.Tensor, *layers: nn.Linear) -> torch.Tensor:
    """The outputs of linear layers side by side, in the type of x."""
    weight = torch.cat([layer.weight for layer in layers]).to(x.dtype)
    bias = torch.cat([layer.bias for layer in layers]).to(x.dtype)
    product: torch.Tensor = _Product.apply(x, weight, bias)  # type: ignore[no-untyped-call]
    return product


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x, weight)
        if has_onednn(x.dtype):
            product: torch.Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
            return product
        return nn.functional.linear(x, weight, bias)

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, slope: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        of_x, of_weight, of_bias = ctx.needs_input_grad
        return (
            slope @ weight if of_x else None,
            slope.T @ x if of_weight else None,
            slope.sum(dim=0) if of_bias else None,
        )
