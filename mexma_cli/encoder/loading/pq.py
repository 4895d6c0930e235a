"""Weights whose token embeddings are product quantised, and all others float16.

Token embeddings are most of a small encoder, and take an eighth of their size in float32 here. Random
rounding errors of many tokens mostly cancel out in a sentence, but not those in how much tokens weigh. So the
component along the direction of log weights (`weighted_embeddings`) is stored apart, as float16. Only the
storage is small: the weights are float32 once they are read.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from mexma_cli.encoder.loading.weights import damaged
from mexma_cli.encoder.model.weighted_embeddings import weight_axis_and_basis
from mexma_cli.numerics.quantised import QuantisedRows

if TYPE_CHECKING:
    from transformers import PreTrainedModel

FILE = "model.pq.safetensors"
"""Not model.safetensors, which other programs would misread."""
_PART = 2
"""Numbers of a token embedding that a byte stands for."""
_WEIGHTS = ".log_weights"
"""Suffix of one of the tensors of quantised embeddings, behind their name in the model."""


def save(model: PreTrainedModel, folder: Path) -> None:
    """Write the weights."""
    words = model.get_input_embeddings().weight
    stored: dict[str, torch.Tensor] = {}
    for name, weight in model.state_dict().items():
        if weight.data_ptr() != words.data_ptr():
            stored[name] = weight.half().contiguous()
            continue
        rows = weight.float().cpu()
        axis = _axis(rows)
        coded = QuantisedRows.of((rows - (rows @ axis)[:, None] * axis).numpy(), _PART)
        stored |= {f"{name}.{part}": torch.from_numpy(array) for part, array in coded.arrays().items()}
        stored[name + _WEIGHTS] = ((rows - torch.from_numpy(coded[:])) @ axis).half()
    save_file(stored, folder / FILE)


def load(path: Path) -> dict[str, torch.Tensor]:
    """The weights in such a file, float32.

    Raises:
        MexmaError: The file is damaged.
    """
    try:
        stored = load_file(path)
        for name in [name.removesuffix(_WEIGHTS) for name in stored if name.endswith(_WEIGHTS)]:
            log_weights = stored.pop(name + _WEIGHTS).float()
            own = [part for part in stored if part.startswith(f"{name}.")]
            parts = {part.removeprefix(f"{name}."): stored.pop(part).numpy() for part in own}
            rows = torch.from_numpy(QuantisedRows.read(parts)[:])
            # First a product, then a sum: every processor gets the same bits, and so the same fingerprint.
            rows += log_weights[:, None] * _axis(rows)
            stored[name] = rows
    except (SafetensorError, OSError, LookupError, ValueError, RuntimeError) as error:
        raise damaged(path, error) from None
    return {name: weight.float() for name, weight in stored.items()}


def _axis(rows: torch.Tensor) -> torch.Tensor:
    return weight_axis_and_basis(rows.shape[1])[0].to(rows)
