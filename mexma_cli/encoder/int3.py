"""Weights stored with word embeddings of 3 bits, eight numbers in three bytes; all others as float16.

Most of a small encoder are word embeddings, and these are a tenth of what float32 takes. A row is a scale
times eight levels. What is off by chance mostly cancels out in a sentence, but for two things, which are
kept as float16: the special tokens, which every sentence has, and one direction of every row, the one from
which the first token takes its attention in layer 0. Computing is another matter: what is read is float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch.nn import functional
from transformers import MODEL_MAPPING, AutoConfig, PreTrainedModel

from mexma_cli.encoder.modules import damaged

FILE = "model.int3.safetensors"
"""Not model.safetensors, which other programs would misread."""
CODES, SCALES, DIRECTION, ERRORS, SPECIAL, ROWS = (
    f".{part}" for part in ("codes", "scales", "direction", "errors", "special", "rows")
)
_BLOCK = 2048
"""So many rows are restored at once: what is between codes and numbers stays in the processor's cache."""
_HALF = torch.tensor([0.2451, 0.7560, 1.344, 2.152])
LEVELS = torch.cat([-_HALF.flip(0), _HALF])
"""The eight with the least squared error for normal numbers of variance 1 (Max 1960, table I)."""


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
        for part, off in zip(words[name].split(_BLOCK), errors.float().split(_BLOCK), strict=True):
            part += off[:, None] * direction
        words[name][special] = rows.float()
    return words | {name: weight.float() for name, weight in stored.items()}


def quantise(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Codes, uint8 [rows, 3 for every 8 numbers], and float16 scales [rows] of a matrix [rows, dim].

    Four levels are 12 bits, the first in the lowest three, and two of these fill three bytes. Scales are the
    root mean square of a row, then what has the least squared error with the levels chosen.
    """
    weight = weight.float()
    scales = weight.square().mean(dim=1, keepdim=True).sqrt().clamp_min(torch.finfo(torch.float32).tiny)
    borders = (LEVELS[1:] + LEVELS[:-1]) / 2
    places = torch.bucketize((weight / scales).contiguous(), borders)
    levels = LEVELS[places]
    best = (weight * levels).sum(dim=1) / levels.square().sum(dim=1)
    whole = functional.pad(places, (0, -places.shape[1] % 8)).unfold(1, 4, 4)
    first, second = (whole << torch.arange(0, 12, 3)).sum(dim=2).unfold(1, 2, 2).unbind(-1)
    codes = torch.stack([first & 255, first >> 8 | (second & 15) << 4, second >> 4], dim=2)
    return codes.flatten(1).to(torch.uint8), best.half()


def restore(codes: torch.Tensor, scales: torch.Tensor, dim: int) -> torch.Tensor:
    """The matrix, float32 [rows, dim], that codes and scales stand for."""
    fours = LEVELS[torch.arange(1 << 12)[:, None] >> torch.arange(0, 12, 3) & 7]
    restored = torch.empty(len(codes), dim)
    for part, triples, own in zip(*(whole.split(_BLOCK) for whole in (restored, codes, scales)), strict=True):
        low, middle, high = triples.int().unfold(1, 3, 3).unbind(-1)
        places = torch.stack([low | (middle & 15) << 8, middle >> 4 | high << 4], dim=2)
        levels = functional.embedding(places.flatten(1), fours).flatten(1)  # four numbers at once
        torch.mul(levels[:, :dim], own.float()[:, None], out=part)
    return restored


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
