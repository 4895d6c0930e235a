"""A transformer, with transformers' code around its weights only once somebody asks for that.

`SentenceEncoder.embed` on a processor needs the weights and a few numbers of config.json.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import torch

from mexma_cli.encoder.attention import use_packed_attention
from mexma_cli.encoder.stored import StoredModel

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_FAMILY = ("BertModel", "CamembertModel", "RobertaModel", "XLMRobertaModel")


class Body:
    """A transformer: transformers' model, or the weights of which one is made when it is asked for.

    Args:
        source: A model attends by packed sentences from now on.
    """

    def __init__(self, source: PreTrainedModel | StoredModel) -> None:
        self._stored: StoredModel | None = None
        self._model: PreTrainedModel | None = None
        if isinstance(source, StoredModel):
            self._stored = source
        else:
            use_packed_attention(source)
            self._model = source

    @property
    def model(self) -> PreTrainedModel:
        """Transformers' model, always the same one; from then on it holds the weights."""
        if self._model is None:
            from mexma_cli.encoder.hugging_face import model_of

            assert self._stored is not None
            self._model, self._stored = model_of(self._stored), None
            use_packed_attention(self._model)
        return self._model

    @property
    def config(self) -> Any:
        """config.json, by attributes."""
        return self.model.config if self._stored is None else SimpleNamespace(**self._stored.config)

    @property
    def weights(self) -> dict[str, torch.Tensor]:
        """By their names in the model; training changes them."""
        return self.model.state_dict() if self._stored is None else self._stored.weights

    @property
    def vocabulary(self) -> int:
        """Token embeddings."""
        if self._stored is None:
            return cast(torch.nn.Embedding, self.model.get_input_embeddings()).num_embeddings
        return int(self._stored.config["vocab_size"])

    @property
    def of_berts_family(self) -> bool:
        """Whether it computes what transformers' BERT or RoBERTa does: no code of a folder's own."""
        if self._stored is not None:
            return True
        kind = type(self.model)
        return kind.__name__ in _FAMILY and kind.__module__.startswith("transformers.models.")

    @property
    def first_position(self) -> int:
        """The position id of a sentence's first token."""
        if self._stored is None:
            return first_position(self.model)
        config = self._stored.config
        return 0 if config["model_type"] == "bert" else int(config["pad_token_id"]) + 1

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.model.device if self._stored is None else torch.device("cpu")

    def to(self, device: torch.device, dtype: torch.dtype) -> None:
        """Move and cast all weights."""
        if self._stored is not None and device.type == "cpu":
            self._stored.weights = {name: tensor.to(dtype) for name, tensor in self._stored.weights.items()}
        else:
            self.model.to(device=device, dtype=dtype)


def first_position(model: PreTrainedModel) -> int:
    """The position id of a sentence's first token: after the padding index in RoBERTa's family, else 0."""
    embeddings = getattr(model, "embeddings", None)
    padding = getattr(embeddings, "padding_idx", None)
    return 0 if padding is None else cast(int, padding) + 1
