"""The operators that torch does not promise to keep, each with another way for a torch that has it not."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

import torch
from torch import distributed


def has_onednn(dtype: torch.dtype) -> bool:
    """Whether this torch has oneDNN's products of a type, with packed weights; else there is `linear`."""
    operators = torch.ops.mkldnn
    if not (torch.backends.mkldnn.is_available() and hasattr(operators, "_linear_pointwise")):
        return False
    return dtype == torch.float32 or _says(operators, "_is_mkldnn_bf16_supported")


def packed(weight: torch.Tensor) -> torch.Tensor:
    """A weight in oneDNN's own order, for `onednn_linear`; only where `has_onednn`."""
    return torch.ops.mkldnn._reorder_linear_weight(weight)


def onednn_linear(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, name: str = "none", algorithm: str = ""
) -> torch.Tensor:
    """oneDNN's linear layer and the activation after it, by its `name` and `algorithm` there; only where
    `has_onednn`."""
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, name, [], algorithm)


def computes_bf16() -> bool:
    """Whether this processor has instructions that multiply bfloat16 numbers (if torch does not tell: no)."""
    return _says(torch.cpu, "_is_avx512_bf16_supported") or _says(torch.cpu, "_is_amx_tile_supported")


def computes_fp16() -> bool:
    """Whether this processor has instructions that multiply float16 numbers (if torch does not tell: no)."""
    return _says(torch.ops.mkldnn, "_is_mkldnn_fp16_supported")


def multiply_all(tensors: Sequence[torch.Tensor], by: torch.Tensor) -> None:
    """Multiply tensors in place by a number, in one call."""
    if hasattr(torch, "_foreach_mul_"):
        torch._foreach_mul_(list(tensors), by)
    else:
        for tensor in tensors:
            tensor.mul_(by)


def move_all(tensors: Sequence[torch.Tensor], ends: Sequence[torch.Tensor], share: float) -> None:
    """Move tensors in place towards others, by a share of the way, in one call."""
    if hasattr(torch, "_foreach_lerp_"):
        torch._foreach_lerp_(list(tensors), list(ends), share)
    else:
        for tensor, end in zip(tensors, ends, strict=True):
            tensor.lerp_(end, share)


def set_timeout(group: distributed.ProcessGroup | None, patience: timedelta) -> None:
    """Let a group of processes that have met (None: the default one) wait so long for one another. A torch
    that cannot change this goes on with the patience that it began with."""
    with suppress(AttributeError):
        distributed.distributed_c10d._set_pg_timeout(patience, group)


def _says(room: Any, name: str) -> bool:
    """The result of a test that torch has in `room`; False where it has none of that name."""
    with suppress(AttributeError):
        return bool(getattr(room, name)())
    return False
