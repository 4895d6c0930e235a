"""Weights stored with token embeddings of 3 bits a number on average, and all others as float16.

Token embeddings are most of a small encoder, and take a tenth of their size in float32 here: the first,
more frequent half of the vocabulary has 4 bits a number, the other half 2 (`numerics.trellis`). Random
rounding errors of many tokens mostly cancel out in a sentence. Two kinds do not, and are corrected with
float16 numbers: the embeddings of special tokens, which every sentence has, and every embedding's component
along the direction that decides how much attention the first token pays to it in layer 0. Only the storage
is small: the weights are float32 once they are read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch.nn import functional

from mexma_cli.encoder.loading.weights import damaged
from mexma_cli.numerics.trellis import QuantisedMatrix

if TYPE_CHECKING:
    from transformers import PreTrainedModel

FILE = "model.int3.safetensors"
"""Not model.safetensors, which other programs would misread."""
_BITS = ".bits"
"""Suffix of the first part of quantised embeddings, behind their name in the model."""
_BLOCK = 2048
"""Rows restored at once, so that intermediate results stay in the processor's cache."""


def save(
    model: PreTrainedModel, first: int, special: Sequence[int], folder: Path, origin: Path | None = None
) -> None:
    """Write the weights.

    Args:
        first: Id of the token that every sentence begins with.
        special: Ids of tokens whose embeddings are stored as float16.
        origin: The file of this kind that the weights were read from, if there is one. Embeddings that have
            not changed since are copied from it, since quantising them again would add new errors.
    """
    words = model.get_input_embeddings().weight
    stored: dict[str, torch.Tensor] = {}
    for name, weight in model.state_dict().items():
        if weight.data_ptr() == words.data_ptr():
            rows = weight.float().cpu()
            parts = _unchanged(name, rows, origin)
            parts = parts or _parts(rows, attended(model, first), torch.tensor(special))
            stored |= {f"{name}.{part}": value for part, value in parts.items()}
        else:
            stored[name] = weight.half().contiguous()
    save_file(stored, folder / FILE)


def quantised(words: torch.Tensor) -> QuantisedMatrix:
    """Token embeddings [vocabulary, D] with 4 and 2 bits a number."""
    frequent = np.arange(len(words)) < len(words) // 2
    return QuantisedMatrix.of(words, np.where(frequent, 4, 2).astype(np.uint8))


def _parts(words: torch.Tensor, direction: torch.Tensor, special: torch.Tensor) -> dict[str, torch.Tensor]:
    stored = quantised(words)
    return stored.tensors() | {
        "direction": direction,
        "errors": ((words - stored.restore().float()) @ direction).half(),
        "special": special,
        "rows": words[special].half(),
    }


def _unchanged(name: str, words: torch.Tensor, origin: Path | None) -> dict[str, torch.Tensor] | None:
    """The parts in that file, if they stand for exactly these embeddings [vocabulary, D]."""
    if origin is None:
        return None
    try:
        parts = _parts_of(load_file(origin), name)
        return parts if torch.equal(_restored(parts), words) else None
    except (SafetensorError, OSError, LookupError, ValueError):  # it was removed or replaced
        return None


def load(path: Path) -> dict[str, torch.Tensor]:
    """The weights in such a file, float32.

    Raises:
        MexmaError: The file is damaged.
    """
    try:
        stored = load_file(path)
    except (SafetensorError, OSError) as error:
        raise damaged(path, error) from None
    for name in [name.removesuffix(_BITS) for name in stored if name.endswith(_BITS)]:
        parts = _parts_of(stored, name)
        for part in parts:
            del stored[f"{name}.{part}"]
        stored[name] = _restored(parts)
    return {name: weight.float() for name, weight in stored.items()}


def _parts_of(stored: Mapping[str, torch.Tensor], name: str) -> dict[str, torch.Tensor]:
    start = f"{name}."
    return {whole.removeprefix(start): part for whole, part in stored.items() if whole.startswith(start)}


def _restored(parts: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """The token embeddings, float32 [vocabulary, D]."""
    direction, errors = parts["direction"], parts["errors"].float()
    words = QuantisedMatrix.read(parts, len(errors), len(direction)).restore().float()
    # First a product, then a sum: every processor gets the same bits, and so the same fingerprint.
    for block, error in zip(words.split(_BLOCK), errors.split(_BLOCK), strict=True):
        block += error[:, None] * direction
    words[parts["special"]] = parts["rows"].float()
    return words


@torch.no_grad()
def attended(model: Any, first: int) -> torch.Tensor:
    """The unit direction [dim] of token embeddings that decides how the token `first` attends in layer 0.

    This is the mean over heads of the key matrix times that token's query; zero for a model that is not of
    BERT's shape.
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
