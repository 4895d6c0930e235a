"""A transformer, with transformers' code around its weights only once somebody asks for that.

`SentenceEncoder.embed` on a processor needs the weights and a few numbers of config.json.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import torch

from mexma_cli.encoder.loading.stored import StoredModel
from mexma_cli.encoder.model.attention import use_packed_attention

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_FAMILY = ("BertModel", "CamembertModel", "RobertaModel", "XLMRobertaModel")


class Body:
    """A transformer: transformers' model, or the weights of which one is made when it is asked for.

    Args:
        source: A model attends by packed sentences from now on.
        coded: The file that the weights were read from, if they are stored in few bits there.
    """

    def __init__(self, source: PreTrainedModel | StoredModel, coded: Path | None = None) -> None:
        if not isinstance(source, StoredModel):
            use_packed_attention(source)
        self._source = source
        self.coded = coded

    @property
    def model(self) -> PreTrainedModel:
        """Transformers' model, always the same one; from then on it holds the weights."""
        if isinstance(self._source, StoredModel):
            from mexma_cli.encoder.loading.hugging_face import model_of

            model = model_of(self._source)
            use_packed_attention(model)
            self._source = model
        return self._source

    @property
    def config(self) -> Any:
        """config.json, by attributes."""
        source = self._source
        return SimpleNamespace(**source.config) if isinstance(source, StoredModel) else source.config

    @property
    def weights(self) -> dict[str, torch.Tensor]:
        """By their names in the model; training changes them."""
        source = self._source
        return source.weights if isinstance(source, StoredModel) else source.state_dict()

    @property
    def vocabulary(self) -> int:
        """Token embeddings."""
        if isinstance(self._source, StoredModel):
            return int(self._source.config["vocab_size"])
        return cast(torch.nn.Embedding, self._source.get_input_embeddings()).num_embeddings

    @property
    def of_berts_family(self) -> bool:
        """Whether it computes what transformers' BERT or RoBERTa does: no code of a folder's own."""
        kind = type(self._source)
        if kind is StoredModel:
            return True
        return kind.__name__ in _FAMILY and kind.__module__.startswith("transformers.models.")

    @property
    def first_position(self) -> int:
        """The position id of a sentence's first token."""
        if not isinstance(self._source, StoredModel):
            return first_position(self._source)
        config = self._source.config
        return 0 if config["model_type"] == "bert" else int(config["pad_token_id"]) + 1

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
    """The position id of a sentence's first token: after the padding index in RoBERTa's family, else 0."""
    embeddings = getattr(model, "embeddings", None)
    padding = getattr(embeddings, "padding_idx", None)
    return 0 if padding is None else cast(int, padding) + 1
