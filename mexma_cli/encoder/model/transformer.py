"""The weights of an encoder: of a transformer, before or after transformers' model around them is built.

`SentenceEncoder.embed` on a processor needs only the weights and a few numbers of config.json. Importing
torch and transformers' models takes longer than loading `mini` and embedding a page of text.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from mexma_cli.encoder.model.families import ACTIVATIONS, FAMILIES, FIRST_ONLY, Pooling
from mexma_cli.encoder.model.weighted_embeddings import QuantisedEmbeddings
from mexma_cli.errors import MexmaError

if TYPE_CHECKING:
    import torch
    from sentence_transformers import SentenceTransformer
    from transformers import PreTrainedModel

Made = TypeVar("Made")
_LOOKED_AT = 16
"""Approximate number of a weight's numbers that are compared to see whether it was changed."""


def quieten_transformers() -> None:
    """Turn off its progress bars, warnings and reports: they are about files, not about the user's text."""
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()


class Weights:
    """The weights of an encoder: a `Transformer`, a `bag.TokenVectors` or a `library.LibraryModel`.

    Attributes:
        settings: What beside the weights decides the vectors, for the fingerprint.
        tasks: Names of what `task` may be: the adapters that the weights have, or a Router's routes.
        task: The one that is computed with; None: no adapter, or the usual route.
        pools: Whether they give vectors of sentences (`embedding`), and not states that are yet to be pooled.
        is_bert: Whether they are those of transformers' BERT or RoBERTa, without code of a folder's own.
        normalised: Whether their own vectors have length 1.
        library: The model of sentence-transformers that computes with them, modules included, if any does.
    """

    settings = ""
    tasks: tuple[str, ...] = ()
    task: str | None = None
    pools = False
    is_bert = False
    normalised = False
    library: SentenceTransformer | None = None
    _made: tuple[Any, ...] = (None, None)

    @property
    def config(self) -> Any:
        """config.json, by attributes: at least `model_type` and `hidden_size`."""
        raise NotImplementedError

    @property
    def weights(self) -> dict[str, torch.Tensor]:
        """The tensors by their names in the model, not copied: training changes them."""
        raise NotImplementedError

    def to(self, device: torch.device, dtype: torch.dtype) -> None:
        """Move and cast all weights."""
        raise NotImplementedError

    @property
    def model(self) -> PreTrainedModel:
        """Transformers' model; an encoder that has none is refused."""
        raise MexmaError(
            f"an encoder of the kind {self.config.model_type} has no transformer, and only embeds",
            "`mexma info` says which ones do",
        )

    @property
    def stored(self) -> Mapping[str, np.ndarray | QuantisedEmbeddings] | None:
        """The weights as they were read, as arrays; None once they are tensors."""
        return None

    @property
    def first_position(self) -> int:
        """The position id of a sentence's first token."""
        return 0

    @property
    def positions(self) -> int:
        """How many tokens of a sentence have a position; T5's are as many as one likes."""
        return sys.maxsize

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        import torch

        return torch.device("cpu")

    @property
    def arrays(self) -> Mapping[str, np.ndarray | QuantisedEmbeddings] | None:
        """The weights in the same memory, float32; None if they are on a GPU, or of another type."""
        if (stored := self.stored) is not None:
            return stored
        weights = self.weights
        plain = all(str(one.dtype) == "torch.float32" and one.is_cpu for one in weights.values())
        return {name: one.detach().numpy() for name, one in weights.items()} if plain else None

    def made(self, kind: Callable[[Any, Any], Made], how: Any) -> Made:
        """The `BagOfEmbeddings` or `Engine` of the weights as they are now: the last one, unless they have
        changed or something else was asked for."""
        of = kind, how, self._state()
        if self._made[0] != of:
            self._made = of, kind(self, how)
        return cast(Made, self._made[1])

    def _state(self) -> list[tuple[int, int, bytes]]:
        """The address, version and a few numbers of each weight, to see later whether it was changed.

        The version is not enough: torch's fused optimisers change a weight without counting it up.
        """
        if self.stored is not None:
            return []  # nobody has had them to change
        found = []
        for weight in self.weights.values():
            some = weight.detach().flatten()[:: max(1, weight.numel() // _LOOKED_AT)]
            found.append((weight.data_ptr(), weight._version, some.numpy().tobytes()))
        return found

    @property
    def computed_by(self) -> str:
        """The program that computes with them on a processor, in words."""
        family = FAMILIES.get(self.config.model_type)
        return "the folder's own code, sentences packed" if family is None else family.runs

    @property
    def fits_engine(self) -> bool:
        """Whether an `Engine` can be made of them: BERT's family, on the processor, in float32."""
        if not self.is_bert or self.config.hidden_act not in ACTIVATIONS or self.config.num_hidden_layers < 1:
            return False
        return self.arrays is not None

    def is_bag(self, pooling: Pooling, tolerance: float = 0.0) -> bool:
        """Whether sentences' vectors are sums over tokens (`model.bag`), on the processor in float32.

        Args:
            tolerance: Positions may differ by this share of a token embedding's length.
        """
        if pooling not in FIRST_ONLY or not self.fits_engine or self.config.num_hidden_layers != 1:
            return False
        arrays = self.arrays
        assert arrays is not None
        positions, words = (arrays[f"embeddings.{name}_embeddings.weight"] for name in ("position", "word"))
        positions = positions[self.first_position :]
        spread = float(np.linalg.norm(positions - positions[0], axis=1).max())
        return spread == 0 or spread < tolerance * float(np.linalg.norm(words, axis=1).mean())

    def embedding(self, prefix: str, max_tokens: int, most: int | None, low: bool) -> EmbedBatch:
        """The way to compute vectors with weights that are not pooled afterwards (`pools`).

        Args:
            prefix: Text before every sentence.
            max_tokens: Tokens that a sentence is cut to.
            most: Sentences in a batch, at most; None: the usual number.
            low: Whether products are computed in bfloat16, on a processor.
        """
        raise NotImplementedError


@dataclass
class Sentences:
    """Sentences to be embedded together.

    Attributes:
        texts: As they are, without a prompt.
        tokens: Ids of each, int64, cut to the encoder's length limit.
        extra: float32 [rows, width], for which ids above the vocabulary stand; None: there are no such ids.
    """

    texts: Sequence[str]
    tokens: list[np.ndarray]
    extra: np.ndarray | None = None


EmbedBatch = Callable[[Sentences], Iterator[tuple[np.ndarray, np.ndarray]]]
"""A way to compute vectors: it gives rows of the sentences, int64 [n], and their vectors, float32 [n, dim],
until there are all."""


@dataclass
class StoredModel:
    """A transformer of BERT's family as its files have it.

    Attributes:
        config: config.json.
        weights: By their names in transformers' model without pooler, all of one type: arrays, or tensors.
            Token embeddings may be quantised among arrays.
    """

    config: dict[str, Any]
    weights: dict[str, Any]

    def tensors(self) -> dict[str, torch.Tensor]:
        """The weights as tensors, from now on, in the same memory."""
        import torch

        for name, weight in self.weights.items():
            whole = np.asarray(weight) if isinstance(weight, QuantisedEmbeddings) else weight
            self.weights[name] = torch.as_tensor(whole)
        return self.weights


class Transformer(Weights):
    """A transformer: either transformers' model, which attends by packed sentences from now on, or stored
    weights from which that model is built on demand."""

    def __init__(self, source: PreTrainedModel | StoredModel) -> None:
        self._source, kind = source, type(source)
        known = any(kind.__name__ == family.model and family.is_bert for family in FAMILIES.values())
        self.is_bert = kind is StoredModel or (known and kind.__module__.startswith("transformers.models."))
        if not isinstance(source, StoredModel):
            self._pack()

    @property
    def model(self) -> PreTrainedModel:
        """Transformers' model, always the same one. Once built, it holds the weights."""
        if isinstance(self._source, StoredModel):
            from mexma_cli.encoder.model.hugging_face import build_model

            quieten_transformers()
            config, weights = self._source.config, self._source.tensors()
            dtype = next(iter(weights.values())).dtype
            self._source = build_model(config, weights, dtype, add_pooling_layer=False)[0].eval()
            self._pack()
        return self._source

    def _pack(self) -> None:
        from mexma_cli.encoder.model.attention import use_packed_attention

        use_packed_attention(cast("PreTrainedModel", self._source))

    @property
    def config(self) -> Any:
        source = self._source
        return SimpleNamespace(**source.config) if isinstance(source, StoredModel) else source.config

    @property
    def weights(self) -> dict[str, torch.Tensor]:
        source = self._source
        return source.tensors() if isinstance(source, StoredModel) else source.state_dict()

    @property
    def stored(self) -> Mapping[str, np.ndarray | QuantisedEmbeddings] | None:
        arrays = self._source.weights if isinstance(self._source, StoredModel) else {}
        plain = (np.ndarray, QuantisedEmbeddings)
        return arrays if all(isinstance(one, plain) for one in arrays.values()) and arrays else None

    @property
    def vocabulary(self) -> int:
        """Number of token embeddings."""
        if isinstance(self._source, StoredModel):
            return int(self._source.config["vocab_size"])
        return cast("torch.nn.Embedding", self._source.get_input_embeddings()).num_embeddings

    @property
    def first_position(self) -> int:
        if not isinstance(self._source, StoredModel):
            return first_position(self._source)
        config = self._source.config
        return int(config["pad_token_id"]) + 1 if FAMILIES[config["model_type"]].behind_padding else 0

    @property
    def positions(self) -> int:
        positions = getattr(self.config, "max_position_embeddings", None)
        return sys.maxsize if positions is None else int(positions) - self.first_position

    @property
    def has_positions(self) -> bool:
        """Whether there is a table of positions, which ends; if not, `positions` is only what it was
        trained with."""
        rows = getattr(self.config, "max_position_embeddings", None)
        tables = [weight for name, weight in (self.stored or self.weights).items() if "position" in name]
        return any(len(table.shape) == 2 and len(table) == rows for table in tables)

    @property
    def device(self) -> torch.device:
        import torch

        return torch.device("cpu") if isinstance(self._source, StoredModel) else self._source.device

    def to(self, device: torch.device, dtype: torch.dtype) -> None:
        source = self._source
        if isinstance(source, StoredModel) and device.type == "cpu":
            source.weights = {name: tensor.to(dtype) for name, tensor in source.tensors().items()}
        else:
            self.model.to(device=device, dtype=dtype)


def first_position(model: PreTrainedModel) -> int:
    """The position id of a sentence's first token: padding id + 1 in RoBERTa's family, else 0."""
    family = FAMILIES.get(model.config.model_type)
    embeddings = getattr(model, "embeddings", None)
    padding = getattr(embeddings, "padding_idx", None)
    if padding is None or (family is not None and not family.behind_padding):
        return 0
    return cast(int, padding) + 1
