"""Faster training on a processor: BERT's layers and dropout in fewer walks over memory, which stays.

Query, key and value are one product, which adds its bias itself. Dropout, residual and LayerNorm are one
operation with a gradient (`add_norm`); torch's three walk over memory three times each way, and with bfloat16
twice more to convert. It gives states twice, in float32 for the next residual and in the type of products for
the next product. Dropped numbers follow from their place and a seed (`Dropout`); torch draws each on one
core, and keeps them all until the way back."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.autograd.function import once_differentiable
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import BaseModelOutputWithPastAndCrossAttentions as Output

from mexma_cli.encoder.model.attention import bucketed
from mexma_cli.encoder.model.families import FAMILIES
from mexma_cli.numerics import kernels
from mexma_cli.numerics.compiling import summing
from mexma_cli.numerics.kernels import add_dropped, draw, plain, read, write
from mexma_cli.numerics.threads import in_slices
from mexma_cli.numerics.torch_private import has_onednn, onednn_linear

_ENCODERS = {family.model.replace("Model", "Encoder") for family in FAMILIES.values() if family.is_bert}


def use_fast_layers(module: nn.Module) -> None:
    """Put an `ProcessorEncoder` in the place of each of transformers' encoders of BERT's family, for packed
    sentences in float32 or bfloat16. Weights keep their names, and are the same tensors."""
    for parent in list(module.modules()):
        for name, part in parent.named_children():
            kind = type(part)
            if kind.__name__ in _ENCODERS and kind.__module__.startswith("transformers.models."):
                setattr(parent, name, ProcessorEncoder(part))


class ProcessorEncoder(nn.Module):
    """The layers one after the other; products are of autocast's type."""

    def __init__(self, encoder: Any) -> None:
        super().__init__()
        self.layer, self.training = nn.ModuleList(map(Layer, encoder.layer)), encoder.training

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

    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.attention, self.intermediate, self.output = layer.attention, layer.intermediate, layer.output
        self.training = layer.training

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
    product: torch.Tensor = _Product.apply(x, weight, bias)
    return product


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x, weight)
        if has_onednn(x.dtype):
            return onednn_linear(x, weight, bias)
        return nn.functional.linear(x, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: torch.Tensor) -> tuple[torch.Tensor | None, ...]:  # pyrefly: ignore[bad-override]
        x, weight = ctx.saved_tensors
        of_x, of_weight, of_bias = ctx.needs_input_grad
        return (
            slope @ weight if of_x else None,
            slope.T @ x if of_weight else None,
            slope.sum(dim=0) if of_bias else None,
        )


_TRIM_THRESHOLD, _MMAP_MAX = -1, -4  # of glibc's mallopt(3)
GROWTH = 1.3
"""How much more than a step has needed is kept."""


class KeptMemory:
    """Memory that a step frees stays with the process for the next one (Linux with glibc; elsewhere nothing).

    Every step frees what the next one allocates, and a page that comes fresh from the system costs several
    times what writing to it does. But memory that stays becomes fragmented and grows from step to step, so
    what is free is given back once the process holds `GROWTH` times what a step needs. That is measured
    after a step that began without kept memory; of the last two such steps the smaller one counts, since one
    may have been uncommonly large.
    """

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None) if sys.platform == "linux" else None
        self._needed = self._last = 0
        self._began_without = True
        if self._libc is not None and hasattr(self._libc, "mallopt"):
            self._libc.mallopt(_MMAP_MAX, 0)
            self._libc.mallopt(_TRIM_THRESHOLD, -1)  # never
        else:
            self._libc = None

    def bound(self) -> None:
        """Give back what is free, if that is too much. To be called after every step."""
        if self._libc is None:
            return
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        if self._began_without:
            self._needed, self._last = min(self._last, pages), pages
        self._began_without = pages > GROWTH * self._needed
        if self._began_without:
            self._libc.malloc_trim(0)


@contextmanager
def denormals_flushed() -> Iterator[None]:
    """Squared gradients of branches that start at zero are denormal numbers, 20 times slower on a CPU.

    In this thread, and in those that torch starts from now on, but not in those that it has.
    """
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


def add_norm(
    x: torch.Tensor, y: torch.Tensor, norm: nn.LayerNorm, share: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """LayerNorm(x + dropout(y)), in float32 and in the type of y.

    Args:
        x: float32 [T, D] on the processor.
        y: float32 or bfloat16 [T, D].
        share: Of y, to drop; drawn with torch's seed (`draw`).
    """
    seed = int(torch.randint(1 << 32, ())) if share else 0
    numbers = np.float32(norm.eps), np.float32(share), np.uint32(seed)
    found = _AddNorm.apply(x, y, norm.weight, norm.bias, numbers)
    return found[0], found[-1]


class _AddNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, y: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, numbers: Any
    ) -> tuple[torch.Tensor, ...]:
        out, low = torch.empty_like(x), y.new_empty(y.shape if y.dtype != x.dtype else (0, y.shape[1]))
        statistics = torch.empty(len(x), 2)
        # Copies, since FSDP could not free what NumPy has seen.
        weight, bias = weight.detach().clone(), bias.detach().clone()
        given = x.detach().numpy(), plain(y.detach()), weight.numpy(), bias.numpy()
        found = out.numpy(), plain(low), statistics.numpy()

        def work(*places: int) -> None:
            kernels.add_norm(places, given, numbers, found, np.ones((2, x.shape[1]), np.float32))

        in_slices(len(x), work, x.numel() * 8)
        ctx.numbers = numbers
        ctx.save_for_backward(x, y, weight, statistics)
        return (out, low) if len(low) else (out,)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: torch.Tensor, *low_slope: torch.Tensor) -> tuple[torch.Tensor | None, ...]:  # pyrefly: ignore[bad-override]
        saved = ctx.saved_tensors  # read once, as checkpointing wants it
        x, y = saved[:2]
        low = low_slope[0].contiguous() if low_slope else y[:0].detach()
        of_x, of_y = torch.empty_like(x), torch.empty_like(y)
        slopes, states, weight, statistics = (
            part.detach().contiguous().numpy() for part in (slope, x, *saved[2:])
        )
        given = slopes, plain(low), states, plain(y.detach()), weight, statistics
        found = of_x.numpy(), plain(of_y)
        sums: dict[int, np.ndarray] = {}  # by slice

        def work(first: int, stop: int) -> None:
            sums[first] = np.zeros((2, x.shape[1]), np.float32)
            room = np.ones((4, x.shape[1]), np.float32)
            _backward((first, stop), given, ctx.numbers, found, sums[first], room)

        in_slices(len(x), work, x.numel() * 8)
        of_weight, of_bias = torch.from_numpy(sum(sums[first] for first in sorted(sums)))
        return of_x, of_y, of_weight, of_bias, None


@summing
def _backward(places, given, numbers, found, sums, room) -> None:  # pyrefly: ignore[implicit-any-parameter]
    slopes, low_slopes, x, y, weight, statistics = given
    of_x, of_y = found
    _, share, seed = numbers
    kept, normal, slope, low = room[0], room[1], room[2], room[3]
    for j in range(len(low)):
        low[j] = 0
    of_weight, of_bias = sums[0], sums[1]
    for t in range(places[0], places[1]):
        add_dropped(x[t], y[t], t, share, seed, kept, slope, normal)
        mean, scale = statistics[t, 0], statistics[t, 1]
        if len(low_slopes):
            read(low_slopes[t], low)
        total, product, row, result = np.float32(0), np.float32(0), slopes[t], of_x[t]
        for j in range(len(row)):
            normal[j] = (normal[j] - mean) * scale
            whole = row[j] + low[j]
            of_weight[j] += whole * normal[j]
            of_bias[j] += whole
            slope[j] = whole * weight[j]
            total += slope[j]
            product += slope[j] * normal[j]
        total /= np.float32(len(row))
        product /= np.float32(len(row))
        for j in range(len(row)):
            result[j] = (slope[j] - total - normal[j] * product) * scale
            slope[j] = result[j] * kept[j]
        write(slope, of_y[t])


BLOCK = 1024
"""Numbers whose factors are drawn together."""
_ROWS = 32  # blocks that are multiplied together: few enough for torch to do it on one thread


def use_fast_dropout(module: nn.Module) -> None:
    """Put a `Dropout` in the place of each of torch's dropout layers in a module."""
    for parent in list(module.modules()):
        for name, part in parent.named_children():
            if type(part) is nn.Dropout:
                setattr(parent, name, Dropout(part.p).train(part.training))


class Dropout(nn.Dropout):
    """Dropout as torch's, but the mask follows from a seed that torch's generator draws."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Zeros for a share p of the numbers, and the others by 1 / (1 - p), while training."""
        fits = input.device.type == "cpu" and input.dtype in (torch.float32, torch.bfloat16)
        if not (self.training and 0 < self.p < 1 and fits):
            return super().forward(input)
        seed = int(torch.randint(1 << 32, ()))
        kept: torch.Tensor = _Dropped.apply(input, self.p, seed)
        return kept


class _Dropped(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, share: float, seed: int) -> torch.Tensor:
        ctx.numbers = (np.float32(share), np.uint32(seed))
        return _drop(x, *ctx.numbers)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: torch.Tensor) -> tuple[torch.Tensor, None, None]:  # pyrefly: ignore[bad-override]
        return _drop(slope, *ctx.numbers), None, None


def _drop(x: torch.Tensor, share: np.float32, seed: np.uint32) -> torch.Tensor:
    x = x.detach().contiguous()
    out = torch.empty_like(x)
    given, found = x.flatten().split(_ROWS * BLOCK), out.flatten().split(_ROWS * BLOCK)

    def work(first: int, stop: int) -> None:
        factors = np.empty((_ROWS, BLOCK), np.float32)
        for part in range(first, stop):
            _draw(factors, part * _ROWS, seed, share)
            torch.mul(given[part], torch.from_numpy(factors.ravel()[: len(given[part])]), out=found[part])

    in_slices(len(given), work, x.numel())
    return out


@summing
def _draw(factors: np.ndarray, first: int, seed: np.uint32, share: np.float32) -> None:
    for row in range(len(factors)):
        draw(factors[row], first + row, seed, share)
