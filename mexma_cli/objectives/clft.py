"""CLFT: a new language for an encoder that is good at one (Campbell and Hathaway 2023).

The targets' vectors stay where a frozen copy of the encoder has them, and the sources' are drawn to their
translations: mean(1 - f(y) . f_s(y)) + 0.4 mean(1 - f(y) . f(x)), with f of unit length. No negatives.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.nn import functional

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.encoder.model.attention import run_packed
from mexma_cli.encoder.model.packing import PackedBatch
from mexma_cli.encoder.model.pooling import pool
from mexma_cli.objectives import losses
from mexma_cli.objectives.base import Objective, PairViews, encoder_players
from mexma_cli.recipe.objectives import ClftObjective


class Clft(Objective):
    """Anchored targets, with the encoder's own pooling and what comes after it.

    Args:
        encoder: That is trained.
        teacher: That is not; its tokeniser and width are the encoder's.
    """

    def __init__(self, encoder: SentenceEncoder, settings: ClftObjective, teacher: SentenceEncoder) -> None:
        super().__init__()
        self.encoder = encoder
        self.model = encoder.model
        self.after = encoder.modules
        # A SentenceEncoder is no module: not trained, not in checkpoints, always in evaluation mode. A run
        # that is resumed makes it again from what the phase began with.
        self.teacher = teacher
        self.teacher.model.eval()
        self.weights = {"anchor": 1.0, "cross": settings.cross}

    def views(self) -> None:
        """The clean sentences alone."""
        return None

    def forward(self, views: PairViews) -> dict[str, torch.Tensor]:
        """The targets' distance to the teacher's vectors, and that to their translations."""
        with torch.no_grad():  # first: a GPU has nothing else to do yet when it is asked for the rows
            rows, back = views.target_rows.sort()
            self._bring_teacher(rows.device)
            found = _vectors(self.teacher, chosen(views.batch, rows.tolist()))
            anchors = torch.empty_like(found)
            anchors[back] = found
        vectors = _vectors(self.encoder, views.batch)
        source, target = vectors[views.source_rows], vectors[views.target_rows]
        return {"anchor": losses.apart(target, anchors), "cross": losses.apart(target, source)}

    def _bring_teacher(self, device: torch.device) -> None:
        if self.teacher.device != device:
            self.teacher.model.to(device)
            self.teacher.modules.to(device)

    def players(self) -> list[dict[str, list[torch.nn.Parameter]]]:
        """One optimiser; the word embeddings apart, so that their rate can differ."""
        return encoder_players(self, self.model)

    def export(self) -> SentenceEncoder:
        """The encoder, with its pooling and modules."""
        return self.encoder


def _vectors(encoder: SentenceEncoder, batch: PackedBatch) -> torch.Tensor:
    """Sentence vectors as `embed` makes them, with gradients: float32 [B, dim]."""
    hidden = run_packed(encoder.model, batch, encoder.backend).float()
    with torch.autocast(hidden.device.type, enabled=False):
        return encoder.modules(pool(hidden, batch, encoder.pooling))


def chosen(batch: PackedBatch, rows: Sequence[int]) -> PackedBatch:
    """Some sentences of a packed batch, in the order of `rows`."""
    lengths = tuple(batch.lengths[row] for row in rows)
    ends = torch.tensor(batch.lengths).cumsum(0)
    tokens = torch.cat([torch.arange(int(ends[row]) - batch.lengths[row], int(ends[row])) for row in rows])
    tokens = tokens.to(batch.input_ids.device)
    borders = functional.pad(torch.tensor(lengths).cumsum(0), (1, 0)).to(batch.cu_seqlens)
    return PackedBatch(batch.input_ids[tokens], batch.position_ids[tokens], borders, lengths)
