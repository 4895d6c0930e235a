"""Transformers' models built from weights in memory, or untrained. Importing this module takes seconds."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import torch
from transformers import (
    CONFIG_MAPPING,
    MODEL_MAPPING,
    PreTrainedConfig,
    PreTrainedModel,
    XLMRobertaConfig,
    XLMRobertaModel,
)

from mexma_cli.encoder.model.families import FAMILIES
from mexma_cli.settings.training import NewEncoder

LoadingReport = dict[str, Any]
"""Which weights are missing or of another shape; transformers has filled these with random numbers."""
_READ = {"head_dim", "use_bidirectional_attention", "is_causal"}
_READ |= {"attention_head_size", "conv_act", "conv_groups", "conv_kernel_size", "embedding_size"}
_READ |= {"norm_rel_ebd", "position_buckets", "share_att_key"}
"""Names that models read, DeBERTa above all, though their configs do not declare them."""
_OF_RESULTS = {"output_attentions", "output_hidden_states", "return_dict", "use_cache"}
_OF_RESULTS |= {"chunk_size_feed_forward", "problem_type"}
_OF_RESULTS |= {"num_labels", "id2label", "label2id"}  # of a number, names would be made: gigabytes
"""Keys of a configuration that say what a model returns, and how: we say that where it is run."""


def config_of(content: Mapping[str, Any], folder: str = "") -> PreTrainedConfig:
    """Transformers' object of a config.json's `content`, from a folder: of what it knows for this family, and
    nothing else.

    Other keys would be read, too, and some make it fetch code and run it: an attention or experts by their
    name on the hub, a quantiser, another config.json. Older names of keys count: an object of all keys, from
    which nothing is built, has what they stand for.
    """
    kind = CONFIG_MAPPING[content["model_type"]]
    read = kind.from_dict({name: value for name, value in content.items() if name not in _OF_RESULTS})
    known = _READ.union(kind().to_dict()) - _OF_RESULTS
    chosen = {name: value for name, value in read.to_dict().items() if name in known}
    return kind.from_dict(chosen, name_or_path=folder)


def build_model(
    content: Mapping[str, Any],
    weights: Mapping[str, torch.Tensor],
    dtype: torch.dtype,
    kinds: Mapping[Any, Any] = MODEL_MAPPING,
    **arguments: Any,
) -> tuple[PreTrainedModel, LoadingReport]:
    """The model of a config.json's `content` with these weights, cast to a type; `kinds` has the model's
    class by that of its config, and `arguments` are that class's. A ValueError says that the model would be
    much larger than the weights are; transformers raises others."""
    config = config_of(content)
    kind = kinds[type(config)]
    if kinds is MODEL_MAPPING:  # of two-sided models, T5's and NLLB's, the encoder alone
        kind = getattr(importlib.import_module(kind.__module__), FAMILIES[content["model_type"]].model)
    _check_size(config, sum(weight.numel() for weight in weights.values()))
    model, report = kind.from_pretrained(
        None,
        config=config,
        state_dict=dict(weights),
        dtype=dtype,
        ignore_mismatched_sizes=True,  # reported by name instead
        output_loading_info=True,
        **arguments,
    )
    return model, report


def _check_size(config: PreTrainedConfig, stored: int) -> None:
    """Refuse sizes that are not those of the weights, so many numbers, before they take memory: transformers
    makes room for all that config.json describes. What the weights lack of it is reported later."""

    def size(*names: str) -> int:
        found = (getattr(config, name, None) for name in names)
        return next((value for value in found if isinstance(value, int)), 0)

    width, inner = size("hidden_size"), size("intermediate_size", "hidden_dim", "encoder_ffn_dim")
    rows = size("vocab_size") + size("max_position_embeddings") + size("type_vocab_size")
    buckets = size("relative_attention_num_buckets") * size("num_attention_heads")
    narrow, layers = width, size("num_hidden_layers")
    if config.model_type == "albert":  # layers share weights
        narrow, layers = size("embedding_size"), size("num_hidden_groups")
    least = rows * narrow + layers * (4 * width + 2 * inner) * width + buckets
    if least > 2 * stored + _SLACK:
        raise ValueError(f"config.json describes a model of {least:,} numbers; the weights have {stored:,}")


_SLACK = 1 << 20  # what a small model may lack, to be named by `LoadingReport`


def new_model(shape: NewEncoder, vocabulary: int, max_tokens: int, seed: int) -> PreTrainedModel:
    """An untrained XLM-R of a recipe's shape, initialised from `seed`."""
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
