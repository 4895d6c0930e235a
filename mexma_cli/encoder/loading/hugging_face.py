"""Transformers' models of a folder. Importing this module takes seconds."""

from __future__ import annotations

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
    """The folder's model as it is stored.

    Raises:
        MexmaError: Weights that cannot be read, or an activation that transformers does not know.
    """
    if settings.own_code:
        model, report = AutoModel.from_pretrained(
            settings.transformer,
            dtype="auto",
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
    return build_model(
        settings.config, read_weights(settings.transformer, (BESIDE_NGRAMS, *FILES)), **arguments
    )
