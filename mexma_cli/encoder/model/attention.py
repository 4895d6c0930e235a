"""Attention over packed sentences, for unmodified Hugging Face models.

`packed_attention` is registered with `transformers.AttentionInterface`, together with a mask function that
returns None, so that the model builds no mask of its own. A model takes a packed batch as
``input_ids [1, T]`` with explicit ``position_ids`` and ``packed`` (see `run_packed`).

Backends on CUDA: `xformers` (memory_efficient_attention with BlockDiagonalMask, MEXMA's section 7.1) and
`varlen` (torch's variable-length attention, on Ampere and later). Backend on every device: `bucketed`. It
computes short sentences on a processor with `short_attention`, and others with torch's
scaled_dot_product_attention, one call for each run of equal length.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Sequence
from functools import lru_cache
from inspect import signature
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch.nn.functional import scaled_dot_product_attention

from mexma_cli.encoder.model.families import FAMILIES
from mexma_cli.encoder.model.packing import PackedBatch, pack, token_embeddings
from mexma_cli.encoder.model.short_attention import attend, within_short
from mexma_cli.errors import MexmaError, installed_by

if TYPE_CHECKING:
    from transformers import PreTrainedModel

IMPLEMENTATION = "mexma_packed"
Backend = Literal["xformers", "varlen", "bucketed"]
States = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
"""Query, key and value: [1, H, T, D] each."""
_VARLEN, _XFORMERS = "torch.nn.attention.varlen", "xformers.ops"

_NO_DROPOUT = ("attention 'varlen' has no dropout", "set attention_dropout to 0, or use auto or xformers")

_AMPERE = (8, 0)
"""The least compute capability for torch's variable-length attention."""


def choose_backend(wanted: str, device: torch.device | str, dropout: float = 0.0) -> Backend:
    """The backend for a device: the wanted one, or for `auto` the best that runs there, where training will
    drop this share of attention weights. One that cannot run here is refused, never replaced."""
    device = torch.device(device)
    on_cuda = device.type == "cuda"
    if wanted == "bucketed" or (wanted == "auto" and not on_cuda):
        return "bucketed"
    if wanted == "auto":
        if _has(_VARLEN) and _is_ampere(device) and not dropout:
            return "varlen"
        return "xformers" if _has(_XFORMERS) and _xformers_runs(device) else "bucketed"
    if wanted not in ("xformers", "varlen"):
        raise MexmaError(f"unknown attention {wanted!r}", "auto, xformers, varlen or bucketed")
    if not on_cuda:
        raise MexmaError(
            f"attention {wanted!r} needs a CUDA device, this is {device}", "use auto or bucketed"
        )
    if wanted == "varlen":
        if not _has(_VARLEN):
            raise MexmaError("attention 'varlen' is not in this torch", "torch 2.10 or newer, or xformers")
        if not _is_ampere(device):
            name = torch.cuda.get_device_name(device)
            raise MexmaError(f"attention 'varlen' needs an Ampere GPU or newer, this is {name}", "use auto")
        if dropout:
            raise MexmaError(*_NO_DROPOUT)
        return "varlen"
    if not _has(_XFORMERS):
        raise MexmaError("attention 'xformers' is not installed", installed_by("gpu"))
    if not _xformers_runs(device):
        raise MexmaError(
            f"attention 'xformers' does not run with this torch ({torch.__version__})",
            "see `python -m xformers.info`; install the xformers that was built for it, or use auto",
        )
    return "xformers"


def packs(model: PreTrainedModel) -> bool:
    """Whether a model takes packed sentences; `run_packed` runs one that does not by lengths."""
    family = FAMILIES.get(model.config.model_type)
    return family is None or family.packs


def use_packed_attention(model: PreTrainedModel) -> None:
    """Make a Hugging Face encoder attend within each packed sentence only, if it `packs`."""
    if not packs(model):
        return
    from transformers import AttentionInterface, AttentionMaskInterface

    AttentionInterface.register(IMPLEMENTATION, packed_attention)
    AttentionMaskInterface.register(IMPLEMENTATION, lambda *_, **__: None)
    model.set_attn_implementation(IMPLEMENTATION)


def set_attention_dropout(module: torch.nn.Module, share: float) -> None:
    """Set the share of attention weights to drop in training, in all of a module's layers of BERT's kind."""
    for part in module.modules():
        dropout = getattr(part, "dropout", None)
        if hasattr(part, "query") and isinstance(dropout, torch.nn.Dropout):
            dropout.p = share


def run_packed(
    model: PreTrainedModel, batch: PackedBatch, backend: Backend, inputs_embeds: torch.Tensor | None = None
) -> torch.Tensor:
    """Last hidden states of a packed batch.

    A model that does not pack gets a call for each run of neighbours of equal length: sort by length first.

    Args:
        model: An encoder that went through `use_packed_attention`.
        inputs_embeds: [T, dim] in place of the batch's input ids.

    Returns:
        [T, dim] in the model's dtype (or autocast's).
    """
    if inputs_embeds is None and batch.extra_embeddings is not None:
        vocabulary = model.get_input_embeddings().weight
        inputs_embeds = token_embeddings(vocabulary, batch.input_ids, batch.extra_embeddings)
    inputs = {"input_ids": batch.input_ids} if inputs_embeds is None else {"inputs_embeds": inputs_embeds}
    if packs(model) or "position_ids" in signature(model.forward).parameters:
        inputs["position_ids"] = batch.position_ids
    if packs(model):
        rows = {name: tensor[None] for name, tensor in inputs.items()}
        once = {"use_cache": False} if "use_cache" in signature(model.forward).parameters else {}
        return model(**rows, **once, **attention_arguments(batch, backend)).last_hidden_state[0]
    runs = [(length, len(list(run))) for length, run in groupby(batch.lengths)]
    parts = {name: tensor.split([n * length for length, n in runs]) for name, tensor in inputs.items()}
    states = []
    for i, (length, n) in enumerate(runs):
        rows = {name: part[i].unflatten(0, (n, length)) for name, part in parts.items()}
        states.append(model(**rows).last_hidden_state.flatten(0, 1))
    return torch.cat(states)


@torch.inference_mode()
def same_padded(
    model: PreTrainedModel,
    sentences: Sequence[np.ndarray],
    first_position: int,
    padding: int,
    pads_left: bool,
) -> bool:
    """Whether packed sentences have the states of a padded batch with its mask and the model's own attention,
    computed in float32. The model attends by packed sentences again.

    Args:
        sentences: Token ids of each.
        first_position: As for `pack`.
        padding: Id of the padding token, which stands before a sentence if `pads_left`.
    """
    stored = [part.data for part in model.parameters()]
    packed = pack(sentences, first_position)
    ids = torch.full((len(sentences), max(packed.lengths)), padding)
    mask = torch.zeros_like(ids)
    for row, sentence in enumerate(sentences):
        own = slice(-len(sentence), None) if pads_left else slice(len(sentence))
        ids[row, own], mask[row, own] = torch.from_numpy(sentence), 1
    try:
        for part in model.parameters():
            part.data = part.data.float()
        states = run_packed(model, packed, "bucketed")
        model.set_attn_implementation("eager")
        padded = model(input_ids=ids, attention_mask=mask).last_hidden_state[mask.bool()]
    finally:
        model.set_attn_implementation(IMPLEMENTATION)
        for part, data in zip(model.parameters(), stored, strict=True):
            part.data = data
    return torch.allclose(states, padded, rtol=1e-4, atol=1e-4)


def attention_arguments(batch: PackedBatch, backend: Backend) -> dict[str, Any]:
    """The keyword arguments that models pass on to `packed_attention`."""
    return {"packed": (batch.lengths, batch.cu_seqlens, backend)}


def packed_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    **others: Any,
) -> tuple[torch.Tensor, None]:
    """Attention within each sentence of a packed batch.

    Args:
        module: A layer's attention; in a decoder, a token attends to itself and to what is before it.
        query, key, value: [1, H, T, D]; keys and values may have fewer heads, each for some of the queries'.
        attention_mask: Always None: the sentence borders are in `packed`.
        others: Those of `attention_arguments`, and perhaps `sliding_window`: a token attends to those that
            are nearer than this; None: to all of its sentence.

    Returns:
        [1, T, H, D] and None (no weights).
    """
    lengths, cu_seqlens, backend = others["packed"]
    window = others.get("sliding_window")
    if shared := query.shape[1] // key.shape[1] - 1:
        key, value = (part.repeat_interleave(shared + 1, dim=1) for part in (key, value))
    states = query, key, value
    both_ways = not getattr(getattr(module, "config", None), "is_causal", True)
    causal = bool(getattr(module, "is_causal", False)) and not both_ways
    if both_ways and window is not None:
        window += 1  # transformers' mask of a decoder that reads both ways has its border, too
    slides = window is not None and max(lengths) > window
    if causal or slides or backend == "bucketed" or not _takes(backend, query):
        rows = torch.stack([part[0].transpose(0, 1) for part in states], dim=1)
        output = bucketed(rows, lengths, scaling, dropout, window if slides else None, causal)[None]
    elif backend == "varlen":
        output = _varlen(states, cu_seqlens, max(lengths), scaling, dropout)
    else:
        output = _with_xformers(states, lengths, scaling, dropout)
    return output, None


def _takes(backend: Backend, query: torch.Tensor) -> bool:
    """Whether a backend's kernels can compute heads of this width and type.

    The width is a multiple of 8 up to 256. torch's kernel has no float32; xformers' has bfloat16 only on
    Ampere and later.
    """
    if query.shape[-1] % 8 or query.shape[-1] > 256:
        return False
    if backend == "varlen":
        return query.dtype != torch.float32
    return query.dtype != torch.bfloat16 or _is_ampere(query.device)


def bucketed(
    states: torch.Tensor,
    lengths: tuple[int, ...],
    scaling: float | None,
    dropout: float,
    window: int | None = None,
    causal: bool = False,
) -> torch.Tensor:
    """Attention within each sentence, by runs of neighbours.

    Args:
        states: [T, 3, H, D], query, key and value of each token.
        window: As `sliding_window` of `packed_attention`.
        causal: A token attends to itself and to what is before it.

    Returns:
        [T, H, D].
    """
    # One run has neighbouring short sentences, or neighbours of equal length. The latter are a view
    # [n, L, 3, H, D] of the packed tensor: no padding, no copy, no mask.
    short = {n: not causal and within_short(states, n) and n <= (window or n) for n in set(lengths)}
    runs = [list(run) for _, run in groupby(lengths, lambda n: 0 if short[n] else n)]
    outputs = []
    for run, part in zip(runs, states.split(list(map(sum, runs))), strict=True):
        if short[run[0]]:
            outputs.append(attend(part, run, scaling, dropout))
            continue
        q, k, v = part.unflatten(0, (len(run), run[0])).permute(2, 0, 3, 1, 4)
        mask = None
        if window is not None:
            places = torch.arange(run[0], device=part.device)
            apart = places[:, None] - places
            mask = (apart >= 0) & (apart < window) if causal else apart.abs() < window
        alone = causal and mask is None
        attended = scaled_dot_product_attention(q, k, v, mask, dropout, is_causal=alone, scale=scaling)
        outputs.append(attended.transpose(1, 2).flatten(0, 1))
    return torch.cat(outputs) if len(outputs) > 1 else outputs[0]


def _varlen(
    states: States, cu_seqlens: torch.Tensor, longest: int, scaling: float | None, dropout: float
) -> torch.Tensor:
    from torch.nn.attention.varlen import varlen_attn

    if dropout:
        raise MexmaError(*_NO_DROPOUT)
    q, k, v = (tensor[0].transpose(0, 1).contiguous() for tensor in states)
    factor = 1.0 if scaling is None else scaling * q.shape[-1] ** 0.5  # varlen_attn divides by sqrt(D) itself
    if not math.isclose(factor, 1.0):
        q = q * factor
    output = varlen_attn(q, k, v, cu_seqlens, cu_seqlens, longest, longest)
    assert isinstance(output, torch.Tensor)
    return output[None]


def _with_xformers(
    states: States, lengths: tuple[int, ...], scaling: float | None, dropout: float
) -> torch.Tensor:
    from xformers.ops import memory_efficient_attention

    q, k, v = (tensor.transpose(1, 2) for tensor in states)
    mask = _block_diagonal(lengths, q.device)
    output = memory_efficient_attention(q, k, v, attn_bias=mask, p=dropout, scale=scaling)
    assert isinstance(output, torch.Tensor)
    return output


@lru_cache(maxsize=4)
def _block_diagonal(lengths: tuple[int, ...], device: torch.device) -> Any:
    """xformers' mask, which all layers of a batch share."""
    from xformers.ops.fmha.attn_bias import BlockDiagonalMask

    return BlockDiagonalMask.from_seqlens(list(lengths), device=device)


def _has(module: str) -> bool:
    try:
        importlib.import_module(module)
    except ImportError:
        return False
    return True


@lru_cache
def _xformers_runs(device: torch.device) -> bool:
    """Whether xformers computes anything on a device.

    It can be installed and still fail: its library does not load with a torch of another CUDA version.
    """
    from xformers.ops import memory_efficient_attention

    one = torch.zeros(1, 1, 1, 8, dtype=torch.float16, device=device)
    try:
        memory_efficient_attention(one, one, one)
    except (NotImplementedError, RuntimeError):
        return False
    return True


def _is_ampere(device: torch.device) -> bool:
    return torch.cuda.get_device_capability(device) >= _AMPERE
