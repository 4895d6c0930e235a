"""What an objective is to the trainer, and the batch that it gets."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

import torch
from torch import nn

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.encoder.model.packing import PackedBatch
from mexma_cli.objectives.gather import all_rows


@dataclass(frozen=True)
class Masking:
    """Which tokens are chosen, and what becomes of them: <mask>, a random token, or the token itself.

    Not `symmetric`: of each pair one side, drawn at random, is masked, and only the other is seen clean.
    `concatenated`: a pair is masked as one sequence, source before target (TLM), beside both clean sides.
    """

    ratio: float
    mask_share: float
    random_share: float
    symmetric: bool = True
    concatenated: bool = False


@dataclass(frozen=True)
class Rebuilding:
    """Which side of a pair is rebuilt from the other's token states, and how much of it (DAP).

    `forward` is the target from the source, `backward` the source from the target; `both` takes them in
    turns, by the pair's position in the run. Of the side that is rebuilt every token but the first is
    chosen with probability `ratio`.
    """

    ratio: float
    direction: Literal["forward", "backward", "both"]


@dataclass(frozen=True)
class Rebuilt:
    """B pairs as a rebuilding head takes them: source then target, each without its first token.

    In the released program the first tokens are there and blocked as keys in every layer. Nothing reads
    them then, so leaving them out is the same; the positions count them.

    Attributes:
        batch: B sequences of S tokens in all. Positions are those in the concatenation of the whole
            sentences; the ids are what is to be found.
        places: int64 [S], where each token stands in the clean batch.
        chosen: bool [S], tokens whose states are hidden from the head: those to be found.
        backward: bool [S], tokens of a source that is rebuilt.
        languages: int64 [S], which of the run's source languages each token's pair has.
    """

    batch: PackedBatch
    places: torch.Tensor
    chosen: torch.Tensor
    backward: torch.Tensor
    languages: torch.Tensor

    def to(self, device: torch.device) -> Rebuilt:
        """The same on another device."""
        tensors = (self.places, self.chosen, self.backward, self.languages)
        return Rebuilt(self.batch.to(device), *(tensor.to(device, non_blocking=True) for tensor in tensors))


@dataclass(frozen=True)
class PairViews:
    """B pairs as one packed batch: C clean sentences by length, then (if asked for) C masked ones by length.

    C is 2B: both sides, the masked half the same sentences in the same order. Or (masking that is not
    symmetric) C is B: of each pair one side clean, the other masked. Or (masking that is concatenated) C is
    2B, and the masked half has B sequences, a pair each.

    Attributes:
        batch: The C clean sentences, then the masked ones.
        source_rows, target_rows: int64 [B], where pair i's two sentences stand among the clean ones;
            [0] if they are not both there.
        partners: int64 [C], where among the clean ones the translation of each masked sentence stands
            (with C = 2B: of each clean sentence as well; if concatenated, of those alone).
        identities: int64 [C] of the clean sentences, equal for equal ones, in all processes of a run.
        masked_tokens: int64 [M], places of the chosen tokens within the masked half, sources' first.
        labels: int64 [M], the tokens that stood there.
        source_labels: How many of them are in sources. On the host, so that nothing waits for the device.
        rebuilt: The pairs for a rebuilding head, if it was asked for.
    """

    batch: PackedBatch
    source_rows: torch.Tensor
    target_rows: torch.Tensor
    partners: torch.Tensor
    identities: torch.Tensor
    masked_tokens: torch.Tensor
    labels: torch.Tensor
    source_labels: int
    rebuilt: Rebuilt | None = None

    def negatives(
        self, sentences: torch.Tensor, gather: bool = False
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """What a contrastive loss needs: both sides of the pairs, and which of them are no negatives.

        Args:
            sentences: [C, dim], vectors of the clean sentences.
            gather: Take the pairs of all processes, N of them, in place of the own B.

        Returns:
            Sources [N, dim], targets [N, dim], and bool [N, N]: pairs i and j share a sentence, so j is
            no negative for i. False on the diagonal.
        """
        parts = [
            rows[side]
            for rows in (sentences, self.identities)
            for side in (self.source_rows, self.target_rows)
        ]
        source, target, source_id, target_id = map(all_rows, parts) if gather else parts
        same = (source_id[:, None] == source_id[None]) | (target_id[:, None] == target_id[None])
        return source, target, same.fill_diagonal_(False)

    def to(self, device: torch.device) -> PairViews:
        """The same views on another device."""
        moved: dict[str, Any] = {
            field.name: getattr(self, field.name).to(device, non_blocking=True)
            for field in fields(self)
            if isinstance(getattr(self, field.name), torch.Tensor)
        }
        rebuilt = None if self.rebuilt is None else self.rebuilt.to(device)
        return replace(self, batch=self.batch.to(device), rebuilt=rebuilt, **moved)


def split_views(views: PairViews) -> tuple[PackedBatch, PackedBatch]:
    """The borders of the clean and of the masked half, each as a packed batch of its own."""
    batch, count = views.batch, len(views.identities)
    tokens = sum(batch.lengths[:count])
    clean = PackedBatch(
        batch.input_ids[:tokens],
        batch.position_ids[:tokens],
        batch.cu_seqlens[: count + 1],
        batch.lengths[:count],
        batch.extra_embeddings,
    )
    masked = PackedBatch(
        batch.input_ids[tokens:],
        batch.position_ids[tokens:],
        batch.cu_seqlens[count:] - tokens,
        batch.lengths[count:],
        batch.extra_embeddings,
    )
    return clean, masked


class Objective(nn.Module, ABC):
    """Losses and whatever is trained with them. The trainer knows no loss: it weighs, steps and saves.

    Attributes:
        weights: Weight of each term that `forward` returns.
    """

    weights: Mapping[str, float]

    @abstractmethod
    def views(self) -> Masking | Rebuilding | None:
        """Which views are needed: None for the clean sentences alone, or how to mask or rebuild as well."""

    @abstractmethod
    def forward(self, views: PairViews) -> dict[str, torch.Tensor]:
        """The loss terms of a batch, each a scalar, unweighted.

        Where processes train together the loss is the mean of what they return (see `gather`).
        """

    @abstractmethod
    def players(self) -> list[dict[str, list[nn.Parameter]]]:
        """Optimisers in their order, each a mapping from group (`embeddings`, `body`) to parameters."""

    @abstractmethod
    def export(self) -> SentenceEncoder:
        """The encoder as it stands now."""


def encoder_players(objective: nn.Module, model: Any) -> list[dict[str, list[nn.Parameter]]]:
    """One optimiser for all parameters; the word embeddings apart, so that their rate can differ."""
    words = model.get_input_embeddings().weight
    body = [parameter for parameter in objective.parameters() if parameter is not words]
    return [{"embeddings": [words], "body": body}]
