"""Weights of BERT's family read without transformers, if they are stored as mexma stores them.

Any other folder is left to transformers (`hugging_face`), which also reports what is wrong with it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from mexma_cli.encoder.loading import pq
from mexma_cli.encoder.loading.folder import BESIDE_NGRAMS, WEIGHTS
from mexma_cli.encoder.loading.settings import FolderSettings
from mexma_cli.encoder.model.families import ACTIVATIONS, FAMILIES
from mexma_cli.encoder.model.transformer import StoredModel

_IGNORED = ("pooler.dense.weight", "pooler.dense.bias", "embeddings.position_ids")
"""Tensors that files may have and the model without its pooler does not."""
_USED = {"hidden_act", "layer_norm_eps", "pad_token_id"}


def read_model(settings: FolderSettings) -> StoredModel | None:
    """The folder's weights; None if they are not exactly those that config.json describes.

    Raises:
        MexmaError: `pq` weights that are damaged.
    """
    folder, config = settings.transformer, settings.config
    if settings.own_code or config.get("add_cross_attention") or not FAMILIES[config["model_type"]].is_bert:
        return None
    try:
        small = (folder / pq.FILE).is_file()
        weights = pq.load(folder / pq.FILE) if small else _read(folder)
        weights = {name: tensor for name, tensor in weights.items() if name not in _IGNORED}
        shapes = {name: tuple(tensor.shape) for name, tensor in weights.items()}
        types = {str(tensor.dtype).removeprefix("torch.") for tensor in weights.values()}
        stated = {config.get("dtype") or config["torch_dtype"]}
        if _computed(config) and shapes == _shapes(config, len(weights)) and (small or types == stated):
            return StoredModel(config, weights)
    except (SafetensorError, OSError, KeyError, TypeError, ValueError, AttributeError, ArithmeticError):
        pass
    return None


def _read(folder: Path) -> dict[str, Any]:
    from safetensors.torch import load_file  # bfloat16, which NumPy lacks, and large files without a copy

    beside = folder / BESIDE_NGRAMS
    return load_file(beside if beside.is_file() else folder / WEIGHTS)


def _computed(config: dict[str, Any]) -> bool:
    """Whether the settings that the engine uses are there and of the right type."""
    if not set(config) >= _USED or config["hidden_act"] not in ACTIVATIONS:
        return False
    return isinstance(config["layer_norm_eps"], float) and isinstance(config["pad_token_id"], int)


def _shapes(config: dict[str, Any], most: int) -> dict[str, tuple[int, ...]]:
    """The shapes of all weights of BERT's family without pooler, by name, of `most` layers at most."""
    width, inner = config["hidden_size"], config["intermediate_size"]
    if width % config["num_attention_heads"] or config["num_hidden_layers"] > most:
        raise ValueError("heads that do not divide the width, or more layers than weights")
    tables = {
        "word": config["vocab_size"],
        "position": config["max_position_embeddings"],
        "token_type": config["type_vocab_size"],
    }
    found: dict[str, tuple[int, ...]] = {
        f"embeddings.{name}_embeddings.weight": (rows, width) for name, rows in tables.items()
    }
    norms = ["embeddings.LayerNorm"]
    linear: dict[str, tuple[int, int]] = {}
    for layer in [f"encoder.layer.{i}" for i in range(config["num_hidden_layers"])]:
        norms += [f"{layer}.attention.output.LayerNorm", f"{layer}.output.LayerNorm"]
        linear |= {f"{layer}.attention.self.{name}": (width, width) for name in ("query", "key", "value")}
        linear[f"{layer}.attention.output.dense"] = (width, width)
        linear[f"{layer}.intermediate.dense"] = (inner, width)
        linear[f"{layer}.output.dense"] = (width, inner)
    for name in norms:
        found |= {f"{name}.weight": (width,), f"{name}.bias": (width,)}
    for name, shape in linear.items():
        found |= {f"{name}.weight": shape, f"{name}.bias": shape[:1]}
    return found
