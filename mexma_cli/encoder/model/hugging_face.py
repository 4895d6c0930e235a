"""Transformers' models built from weights in memory, or untrained. Importing this module takes seconds."""

from __future__ import annotations

from typing import Any

import torch
from transformers import (
    CONFIG_MAPPING,
    MODEL_MAPPING,
    PreTrainedModel,
    XLMRobertaConfig,
    XLMRobertaModel,
)

from mexma_cli.errors import MexmaError
from mexma_cli.recipe import NewEncoder

LoadingReport = dict[str, Any]
"""Which weights are missing or of another shape; transformers has filled these with random numbers."""


def build_model(
    content: dict[str, Any], weights: dict[str, torch.Tensor], with_pooler: bool
) -> tuple[PreTrainedModel, LoadingReport]:
    """The model of a config.json's `content` with these weights."""
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
