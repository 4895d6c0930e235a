"""The interface between an objective and the trainer, and checks that several objectives make."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import nn

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.encoder.model.pooling import Dense
from mexma_cli.errors import MexmaError
from mexma_cli.objectives.views import PairViews, StackedSides, TokenPairs, Vocabulary
from mexma_cli.store.pairs import ExtraColumn


@dataclass(frozen=True)
class Start:
    """Everything that an objective is built on.

    Attributes:
        encoder: The encoder that is trained.
        checkpoint: The masked-LM checkpoint that the encoder is from, by name or folder, for heads that come
            from it; None: the run began with a new encoder.
        languages: How many source languages the run has.
        untrained: The encoder's weights are random still.
    """

    encoder: SentenceEncoder
    checkpoint: str | None = None
    languages: int = 1
    untrained: bool = False


class Objective(nn.Module, ABC):
    """Losses and whatever is trained with them. The trainer knows no loss: it weighs, steps and saves.

    Args:
        encoder: The encoder that is trained.
        ngrams: Take words in pieces by their n-grams, where the encoder does that; else all tokens are the
            vocabulary's.

    Attributes:
        weights: Weight of each term that `forward` returns.
        takes: The extra columns that its batches need.
    """

    weights: Mapping[str, float]
    takes: tuple[ExtraColumn, ...] = ()

    def __init__(self, encoder: SentenceEncoder, ngrams: bool = False) -> None:
        super().__init__()
        self.encoder = encoder
        self.vocabulary = Vocabulary.of(encoder, ngrams)

    @classmethod
    def build(cls, start: Start, settings: Any) -> Self:
        """The objective as a recipe asks for it.

        Args:
            settings: Of the class that the objective is registered with.
        """
        return cls(start.encoder, settings)

    @classmethod
    def check(cls, start: Start, settings: Any) -> None:
        """Refuse what the objective cannot train, before anything is written.

        Args:
            start: As for `build`, with the encoder that the first phase begins with.

        Raises:
            MexmaError: Saying what does not fit.
        """

    def batch(self, pairs: TokenPairs) -> PairViews:
        """Pairs as `forward` takes them, on the host: both sides, clean.

        It may run in another thread, while the batch before is trained on.
        """
        return StackedSides.of(pairs, self.vocabulary).views()

    @abstractmethod
    def forward(self, views: PairViews) -> dict[str, torch.Tensor]:
        """The loss terms of a batch, each a scalar, unweighted.

        Where processes train together the loss is the mean of what they return (see `gather`).
        """

    def groups(self) -> dict[str, list[nn.Parameter]]:
        """Parameters by their group: `embeddings`, whose learning rate can differ, and `body`.

        Or all of them as `rows`: tables of which a batch needs few rows (`training.optimisers.RowAdam`).
        """
        model: Any = self.encoder.model
        words = model.get_input_embeddings().weight
        return {"embeddings": [words], "body": [own for own in self.parameters() if own is not words]}

    def export(self) -> SentenceEncoder:
        """The encoder as it stands now; what was trained beside it is left behind."""
        return self.encoder


ALONE = "trains the transformer alone, with that pooling and nothing before or after it"


def check_first_token(objective: str, encoder: SentenceEncoder) -> None:
    """Refuse an encoder whose vectors are more than the first token's state, which the objective trains: one
    with another pooling, or a dense layer after it."""
    if encoder.pooling != "cls":
        raise MexmaError(
            f"{encoder.name} has {encoder.pooling} pooling, and the objective `{objective}` "
            "trains the first token's vector",
            f"encoder.pooling: cls {ALONE}; `clft` trains any pooling",
        )
    dense = [repr(module) for module in encoder.modules if isinstance(module, Dense)]
    if dense:
        raise MexmaError(
            f"{encoder.name} has a {dense[0]} after its pooling, and the objective "
            f"`{objective}` trains the vector before that",
            f"encoder.pooling: cls {ALONE}; `clft` trains such layers too",
        )


def check_mask_token(objective: str, encoder: SentenceEncoder) -> None:
    """Refuse an encoder whose tokeniser has no mask token."""
    if encoder.tokenizer.mask_token_id is None:
        raise MexmaError(
            f"the tokeniser of {encoder.name} has no mask token, and `{objective}` masks tokens",
            "take an objective that masks nothing, such as `contrastive` without `tlm`",
        )
