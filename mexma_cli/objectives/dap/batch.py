"""The inputs of DAP's head besides the clean sentences."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Self

import numpy as np
import torch

from mexma_cli.encoder.model.packing import PackedBatch
from mexma_cli.objectives.dap.settings import Rtl
from mexma_cli.objectives.masking import token_keys, uniform
from mexma_cli.objectives.views import PairViews, Sides, TokenPairs


@dataclass(frozen=True)
class HeadInputs:
    """B pairs as RTL's head takes them: source then target, each without its first token.

    In the released program the first tokens are there and blocked as keys in every layer. Nothing reads
    them then, so leaving them out is the same; the positions count them.

    Attributes:
        batch: B sequences of S tokens in all. Positions are those in the concatenation of the whole
            sentences; the ids are what is to be found.
        places: int64 [S], where each token stands in the clean batch.
        chosen: bool [S], tokens whose states are hidden from the head: those to be found.
        backward: bool [S], tokens of a source that is predicted from its target.
        languages: int64 [S], which of the run's source languages each token's pair has.
    """

    batch: PackedBatch
    places: torch.Tensor
    chosen: torch.Tensor
    backward: torch.Tensor
    languages: torch.Tensor

    def to(self, device: torch.device) -> HeadInputs:
        """A copy on another device."""
        tensors = (self.places, self.chosen, self.backward, self.languages)
        return HeadInputs(self.batch.to(device), *(one.to(device, non_blocking=True) for one in tensors))

    @classmethod
    def of(cls, views: PairViews, sides: Sides, pairs: TokenPairs, settings: Rtl) -> HeadInputs:
        """Where the head finds the tokens of each pair, by length, and which of them are hidden from it."""
        batch = views.batch
        row = torch.cat([views.source_rows, views.target_rows]).numpy()
        count = len(row) // 2
        starts, lengths = batch.cu_seqlens.numpy()[row], np.array(batch.lengths)[row]
        order = np.argsort(lengths[:count] + lengths[count:], kind="stable")
        in_turns = sides.of_run[:count] // 2 % 2 == 0
        backward = in_turns if settings.direction == "both" else settings.direction == "backward"
        backward = np.broadcast_to(backward, count)[order]
        parts = np.stack([order, order + count], axis=1).ravel()
        inner = lengths[parts] - 1
        within = np.arange(inner.sum()) - np.repeat(np.cumsum(inner) - inner, inner) + 1
        offset = np.where(parts < count, 0, lengths[parts - count])
        is_predicted = np.repeat((parts < count) == np.repeat(backward, 2), inner)
        keys = token_keys(inner.tolist(), sides.of_run[parts].astype(np.uint64), pairs.seed)
        pair_lengths = inner.reshape(count, 2).sum(axis=1)
        language = np.zeros(count, np.int64) if pairs.languages is None else pairs.languages
        places = np.repeat(starts[parts], inner) + within
        packed = PackedBatch(
            batch.input_ids[torch.from_numpy(places)],
            torch.from_numpy(np.repeat(offset, inner) + within + sides.first_position),
            torch.from_numpy(np.concatenate([[0], np.cumsum(pair_lengths)]).astype(np.int32)),
            tuple(pair_lengths.tolist()),
        )
        return cls(
            packed,
            torch.from_numpy(places),
            torch.from_numpy(is_predicted & (uniform(keys, 4) < settings.ratio)),
            torch.from_numpy(is_predicted & np.repeat(backward, pair_lengths)),
            torch.from_numpy(np.repeat(language[order], pair_lengths)),
        )


@dataclass(frozen=True)
class DapViews(PairViews):
    """The clean sentences, and the same pairs as RTL's head takes them."""

    head: HeadInputs

    @classmethod
    def of(cls, sides: Sides, pairs: TokenPairs, settings: Rtl) -> DapViews:
        """All sentences by length; `pairs` are those that the sides are of."""
        views = sides.views()
        clean = {field.name: getattr(views, field.name) for field in fields(views)}
        return cls(**clean, head=HeadInputs.of(views, sides, pairs, settings))

    def to(self, device: torch.device) -> Self:
        """A copy of these views on another device."""
        return replace(super().to(device), head=self.head.to(device))
