"""Weights stored with word embeddings of 4 bits, two numbers a byte; all others as float16.

Most of a small encoder are word embeddings, and these are an eighth of what float32 takes. A row is a scale
times sixteen levels. What is off by chance mostly cancels out in a sentence, but for two things, which are
kept as float16: the special tokens, which every sentence has, and one direction of every row, the one from
which the first token takes its attention in layer 0. Computing is another matter: what is read is float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch.nn import functional
from transformers import MODEL_MAPPING, AutoConfig, PreTrainedModel

from mexma_cli.encoder.modules import damaged

FILE = "model.int4.safetensors"
"""Not model.safetensors, which other programs would misread."""
CODES, SCALES, DIRECTION, ERRORS, SPECIAL, ROWS = (
    f".{part}" for part in ("codes", "scales", "direction", "errors", "special", "rows")
)
_HALF = torch.tensor([0.1284, 0.3881, 0.6568, 0.9424, 1.256, 1.618, 2.069, 2.733])
LEVELS = torch.cat([-_HALF.flip(0), _HALF])
"""The sixteen with the least squared error for normal numbers of variance 1 (Max 1960, table I)."""


def save(model: PreTrainedModel, first: int, special: Sequence[int], folder: Path) -> None:
    """Write config.json and the weights.

    Args:
        first: The token that every sentence begins with.
        special: Tokens whose rows are kept as float16.
    """
    words = model.get_input_embeddings().weight
    stored: dict[str, torch.Tensor] = {}
    for name, weight in model.state_dict().items():
        if weight.data_ptr() == words.data_ptr():
            parts = _parts(weight.float().cpu(), attended(model, first), torch.tensor(special))
            stored |= {name + part: value for part, value in parts.items()}
        else:
            stored[name] = weight.half().contiguous()
    model.config.save_pretrained(folder)
    save_file(stored, folder / FILE)


def _parts(words: torch.Tensor, direction: torch.Tensor, special: torch.Tensor) -> dict[str, torch.Tensor]:
    codes, scales = quantise(words)
    errors = (words - restore(codes, scales, words.shape[1])) @ direction
    return {
        CODES: codes,
        SCALES: scales,
        DIRECTION: direction,
        ERRORS: errors.half(),
        SPECIAL: special,
        ROWS: words[special].half(),
    }


def load(folder: Path, with_pooler: bool) -> tuple[PreTrainedModel, dict[str, set[str]]]:
    """The model in float32, and which weights it lacks, as transformers reports them.

    Raises:
        MexmaError: The file is damaged.
        ValueError, KeyError: config.json is none, or of an unknown kind.
    """
    config = AutoConfig.from_pretrained(folder)
    model, report = MODEL_MAPPING[type(config)].from_pretrained(
        None,
        config=config,
        state_dict=_weights(folder / FILE),
        dtype=torch.float32,
        ignore_mismatched_sizes=True,
        output_loading_info=True,
        add_pooling_layer=with_pooler,
    )
    return model, report


def _weights(path: Path) -> dict[str, torch.Tensor]:
    try:
        stored = load_file(path)
    except (SafetensorError, OSError) as error:
        raise damaged(path, error) from None
    words = {}
    for name in [name.removesuffix(CODES) for name in stored if name.endswith(CODES)]:
        codes, scales, direction, errors, special, rows = (
            stored.pop(name + part) for part in (CODES, SCALES, DIRECTION, ERRORS, SPECIAL, ROWS)
        )
        words[name] = restore(codes, scales, len(direction))
        # A product, then a sum, so that every processor gets the same bits, and the same fingerprint.
        words[name] += errors.float()[:, None] * direction
        words[name][special] = rows.float()
    return words | {name: weight.float() for name, weight in stored.items()}


def quantise(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Codes, uint8 [rows, dim / 2 rounded up], and float32 scales [rows] of a matrix [rows, dim].

    The first of a byte's two levels is in its low half. Scales are the root mean square of a row, then what
    has the least squared error with the levels chosen.
    """
    weight = weight.float()
    scales = weight.square().mean(dim=1, keepdim=True).sqrt().clamp_min(torch.finfo(torch.float32).tiny)
    borders = (LEVELS[1:] + LEVELS[:-1]) / 2
    places = torch.bucketize((weight / scales).contiguous(), borders)
    levels = LEVELS[places]
    best = (weight * levels).sum(dim=1) / levels.square().sum(dim=1)
    low, high = functional.pad(places, (0, places.shape[1] % 2)).to(torch.uint8).unfold(1, 2, 2).unbind(-1)
    return low | high << 4, best


def restore(codes: torch.Tensor, scales: torch.Tensor, dim: int) -> torch.Tensor:
    """The matrix, float32 [rows, dim], that codes and scales stand for."""
    byte = torch.arange(256)
    pairs = torch.stack([LEVELS[byte & 15], LEVELS[byte >> 4]], dim=1)
    # Both numbers of a byte at once, as one complex number: faster than rows of two.
    restored = pairs.numpy().view(np.complex64)[:, 0].take(codes.numpy()).view(np.float32)
    return torch.from_numpy(restored)[:, :dim].mul_(scales[:, None])


@torch.no_grad()
def attended(model: Any, first: int) -> torch.Tensor:
    """The unit direction [dim] of word embeddings by which the token `first` attends in layer 0.

    The mean of the heads' keys times that token's query; zero for a model that is not of BERT's shape.
    """
    words = model.get_input_embeddings().weight
    try:
        attention = model.encoder.layer[0].attention.self
        state = model.embeddings(torch.tensor([[first]], device=words.device))[0, 0]
        query = attention.query(state).view(attention.num_attention_heads, -1, 1)
    except AttributeError:
        return torch.zeros(words.shape[1])
    keys = attention.key.weight.view(*query.shape[:2], -1)
    return functional.normalize((query * keys).sum(dim=(0, 1)), dim=0).float().cpu()
