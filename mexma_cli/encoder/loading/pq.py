"""Weights whose token embeddings are product quantised, and all others float16.

Token embeddings are most of a small encoder, and take an eighth of their size in float32 here. Random
rounding errors of many tokens mostly cancel out in a sentence. Two kinds do not, and are stored apart, as
float16: the embeddings of special tokens, which every sentence has, and the component of all others along the
direction of log weights (`weighted_embeddings`). Only the storage is small: rows are float32 once they
are asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from safetensors.numpy import load_file, save_file

from mexma_cli.encoder.loading.weights import damage_as_message
from mexma_cli.encoder.model.weighted_embeddings import QuantisedEmbeddings, weight_axis_and_basis
from mexma_cli.numerics.quantised import QuantisedRows

if TYPE_CHECKING:
    from transformers import PreTrainedModel

FILE = "model.pq.safetensors"
"""Not model.safetensors, which other programs would misread."""
_PART = 2
"""Numbers of a token embedding that a byte stands for."""
_WEIGHTS = "log_weights"
"""Behind the name of quantised embeddings, their error along the direction of log weights."""


def save(model: PreTrainedModel, special: Sequence[int], folder: Path) -> None:
    """Write the weights; `special` are the ids of tokens whose embeddings are not quantised."""
    words = model.get_input_embeddings().weight
    axis = weight_axis_and_basis(words.shape[1])[0].astype(np.float32)
    stored: dict[str, np.ndarray] = {}
    for name, weight in model.state_dict().items():
        rows = weight.float().cpu().numpy()
        if weight.data_ptr() != words.data_ptr():
            stored[name] = np.ascontiguousarray(rows, np.float16)
            continue
        ids = np.array(special, np.int64)
        coded = QuantisedRows.of(rows, _PART)
        parts = {_WEIGHTS: ((rows - coded[:]) @ axis).astype(np.float16)}
        parts |= {**coded.arrays(), "special": ids, "rows": rows[ids].astype(np.float16)}
        stored |= {f"{name}.{part}": array for part, array in parts.items()}
    save_file(stored, folder / FILE)


def load(path: Path) -> dict[str, np.ndarray | QuantisedEmbeddings]:
    """The weights in such a file, float32; a damaged one is refused."""
    with damage_as_message(path):
        stored = load_file(path)
        words = {}
        for start in [name.removesuffix(_WEIGHTS) for name in stored if name.endswith(f".{_WEIGHTS}")]:
            names = [name for name in stored if name.startswith(start)]
            parts = {name.removeprefix(start): stored.pop(name) for name in names}
            coded, weights = QuantisedRows.read(parts), parts[_WEIGHTS].astype(np.float32)
            rows = parts["rows"].astype(np.float32)
            words[start.removesuffix(".")] = QuantisedEmbeddings(coded, weights, parts["special"], rows)
    return {name: weight.astype(np.float32, copy=False) for name, weight in stored.items()} | words
