"""Transformers' models of a folder. Importing this module takes seconds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from transformers import AutoModel, PreTrainedModel
from transformers.activations import ACT2FN

from mexma_cli.encoder.loading import pq
from mexma_cli.encoder.loading.folder import BESIDE_NGRAMS
from mexma_cli.encoder.loading.settings import FolderSettings
from mexma_cli.encoder.loading.weights import FILES, read_weights
from mexma_cli.encoder.model.families import FAMILIES
from mexma_cli.encoder.model.hugging_face import LoadingReport, build_model
from mexma_cli.encoder.model.transformer import StoredModel, quieten_transformers
from mexma_cli.errors import MexmaError

quieten_transformers()


def read_model(settings: FolderSettings, with_pooler: bool) -> tuple[PreTrainedModel, LoadingReport]:
    """The folder's model as it is stored, of the type that its weights have, whatever config.json says.
    Refused: weights that cannot be read, and an activation that transformers does not know."""
    if settings.own_code:
        model, report = AutoModel.from_pretrained(
            settings.transformer,
            dtype=_widest(read_weights(settings.transformer)),
            ignore_mismatched_sizes=True,  # reported by name instead
            output_loading_info=True,
            weights_only=True,
            trust_remote_code=True,
        )
        return model, report
    activation = settings.config.get("hidden_act")
    if isinstance(activation, str) and activation not in ACT2FN:
        path = settings.transformer / "config.json"
        raise MexmaError(f"{path}: hidden_act {activation!r} is not supported")
    is_bert = FAMILIES[settings.config["model_type"]].is_bert
    arguments: dict[str, Any] = {"add_pooling_layer": with_pooler} if is_bert else {}
    if (settings.transformer / pq.FILE).is_file():
        small = StoredModel(settings.config, pq.load(settings.transformer / pq.FILE)).tensors()
        return build_model(settings.config, small, torch.float32, **arguments)
    weights = read_weights(settings.transformer, (BESIDE_NGRAMS, *FILES))
    return build_model(settings.config, weights, _widest(weights), **arguments)


def _widest(weights: Mapping[str, torch.Tensor]) -> torch.dtype:
    """The floating-point type that has all numbers of the weights."""
    types = {weight.dtype for weight in weights.values() if weight.is_floating_point()}
    return types.pop() if len(types) == 1 else torch.float32
