"""Transformers' models: read, made of weights, or untrained. Importing this takes its time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import (
    CONFIG_MAPPING,
    MODEL_MAPPING,
    AutoModel,
    AutoModelForMaskedLM,
    PreTrainedModel,
    XLMRobertaConfig,
    XLMRobertaModel,
)
from transformers.activations import ACT2FN

from mexma_cli.encoder.loading import int3
from mexma_cli.encoder.loading.folder import FolderSettings
from mexma_cli.encoder.loading.stored import StoredModel
from mexma_cli.encoder.loading.tokens import quieten
from mexma_cli.errors import MexmaError
from mexma_cli.recipe import NewEncoder

quieten()

Report = dict[str, Any]
"""Which weights the files lack; transformers has made them up."""


def read_model(settings: FolderSettings, with_pooler: bool) -> tuple[PreTrainedModel, Report]:
    """The folder's model as it is stored.

    Raises:
        MexmaError: An activation that transformers does not know.
    """
    activation = settings.config.get("hidden_act")
    if isinstance(activation, str) and activation not in ACT2FN and not settings.own_code:
        path = settings.transformer / "config.json"
        raise MexmaError(f"{path}: hidden_act {activation!r} is not supported")
    if (settings.transformer / int3.FILE).is_file():
        return _built(settings.config, int3.load(settings.transformer / int3.FILE), with_pooler)
    # A class of the folder's own may not know the argument.
    arguments: dict[str, Any] = {} if settings.own_code else {"add_pooling_layer": with_pooler}
    model, report = AutoModel.from_pretrained(
        settings.transformer,
        dtype="auto",
        ignore_mismatched_sizes=True,  # reported by name instead
        output_loading_info=True,
        weights_only=True,
        trust_remote_code=settings.own_code,
        **arguments,
    )
    return model, report


def model_of(stored: StoredModel) -> PreTrainedModel:
    """The model of a folder that was read without transformers, in evaluation mode."""
    return _built(stored.config, stored.weights, with_pooler=False)[0].eval()


def _built(
    content: dict[str, Any], weights: dict[str, torch.Tensor], with_pooler: bool
) -> tuple[PreTrainedModel, Report]:
    config = CONFIG_MAPPING[content["model_type"]].from_dict(content)
    model, report = MODEL_MAPPING[type(config)].from_pretrained(
        None,
        config=config,
        state_dict=weights,
        dtype=next(iter(weights.values())).dtype,
        ignore_mismatched_sizes=True,
        output_loading_info=True,
        add_pooling_layer=with_pooler,
    )
    return model, report


def read_masked_lm(folder: Path) -> tuple[PreTrainedModel, Report]:
    """A masked-LM checkpoint, float32."""
    model, report = AutoModelForMaskedLM.from_pretrained(
        folder, dtype=torch.float32, output_loading_info=True, weights_only=True
    )
    return model, report


def new_model(shape: NewEncoder, vocabulary: int, max_tokens: int, seed: int) -> PreTrainedModel:
    """An untrained XLM-R of a recipe's shape, initialised from `seed`.

    Raises:
        MexmaError: The heads do not divide the width.
    """
    if shape.width % shape.heads:
        raise MexmaError(
            f"encoder.new: {shape.heads} heads do not divide a width of {shape.width}",
            "the width is a multiple of the number of heads",
        )
    config = XLMRobertaConfig(
        vocab_size=vocabulary,
        hidden_size=shape.width,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        intermediate_size=shape.ffn,
        hidden_dropout_prob=shape.dropout,
        attention_probs_dropout_prob=shape.attention_dropout,
        max_position_embeddings=max_tokens + 2,
        type_vocab_size=1,
        layer_norm_eps=1e-5,
    )
    torch.manual_seed(seed)
    return XLMRobertaModel(config, add_pooling_layer=False)
