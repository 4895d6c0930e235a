"""A transformer whose weights can be used before transformers' model around them is built.

`SentenceEncoder.embed` on a processor needs only the weights and a few numbers of config.json. Importing
transformers' models takes longer than loading `mini` and embedding a page of text.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import torch
from torch.nn.functional import gelu, relu

from mexma_cli.encoder.model.attention import use_packed_attention
from mexma_cli.encoder.model.families import FAMILIES
from mexma_cli.encoder.quiet import quieten_transformers

if TYPE_CHECKING:
    from transformers import PreTrainedModel

ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "gelu": gelu,
    "gelu_new": partial(gelu, approximate="tanh"),
    "relu": relu,
}
"""The activations that the engine computes, by their names in config.json (`hidden_act`)."""


@dataclass
class StoredModel:
    """A transformer of BERT's family as its files have it.

    Attributes:
        config: config.json.
        weights: By their names in transformers' model without pooler, all of one type.
    """

    config: dict[str, Any]
    weights: dict[str, torch.Tensor]


class LazyTransformer:
    """A transformer: either transformers' model, or stored weights from which that model is built on demand.

    Args:
        source: The model or the weights. A model attends by packed sentences from now on.
    """

    def __init__(self, source: PreTrainedModel | StoredModel) -> None:
        if not isinstance(source, StoredModel):
            use_packed_attention(source)
        self._source = source

    @property
    def model(self) -> PreTrainedModel:
        """Transformers' model, always the same one. Once built, it holds the weights."""
        if isinstance(self._source, StoredModel):
            from mexma_cli.encoder.model.hugging_face import build_model

            quieten_transformers()
            model, _ = build_model(self._source.config, self._source.weights, with_pooler=False)
            use_packed_attention(model.eval())
            self._source = model
        return self._source

    @property
    def config(self) -> Any:
        """config.json, by attributes."""
        source = self._source
        return SimpleNamespace(**source.config) if isinstance(source, StoredModel) else source.config

    @property
    def weights(self) -> dict[str, torch.Tensor]:
        """The tensors by their names in the model, not copied: training changes them."""
        source = self._source
        return source.weights if isinstance(source, StoredModel) else source.state_dict()

    @property
    def vocabulary(self) -> int:
        """Number of token embeddings."""
        if isinstance(self._source, StoredModel):
            return int(self._source.config["vocab_size"])
        return cast(torch.nn.Embedding, self._source.get_input_embeddings()).num_embeddings

    @property
    def is_bert(self) -> bool:
        """Whether it computes what transformers' BERT or RoBERTa does, without code of a folder's own."""
        kind = type(self._source)
        if kind is StoredModel:
            return True
        known = any(kind.__name__ == family.model and family.is_bert for family in FAMILIES.values())
        return known and kind.__module__.startswith("transformers.models.")

    @property
    def first_position(self) -> int:
        """The position id of a sentence's first token."""
        if not isinstance(self._source, StoredModel):
            return first_position(self._source)
        config = self._source.config
        return int(config["pad_token_id"]) + 1 if FAMILIES[config["model_type"]].behind_padding else 0

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return torch.device("cpu") if isinstance(self._source, StoredModel) else self._source.device

    def to(self, device: torch.device, dtype: torch.dtype) -> None:
        """Move and cast all weights."""
        source = self._source
        if isinstance(source, StoredModel) and device.type == "cpu":
            source.weights = {name: tensor.to(dtype) for name, tensor in source.weights.items()}
        else:
            self.model.to(device=device, dtype=dtype)


def first_position(model: PreTrainedModel) -> int:
    """The position id of a sentence's first token: padding id + 1 in RoBERTa's family, else 0."""
    embeddings = getattr(model, "embeddings", None)
    padding = getattr(embeddings, "padding_idx", None)
    return 0 if padding is None else cast(int, padding) + 1
