"""CLFT: a new language for an encoder that is good at one (Campbell and Hathaway 2023).

The targets' vectors stay where a frozen copy of the encoder has them, and the sources' are drawn to their
translations: mean(1 - f(y) . f_s(y)) + 0.4 mean(1 - f(y) . f(x)), with f of unit length. No negatives.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from torch.nn import functional

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.encoder.model.attention import run_packed
from mexma_cli.encoder.model.packing import PackedBatch
from mexma_cli.encoder.model.pooling import pool
from mexma_cli.errors import MexmaError
from mexma_cli.objectives import losses
from mexma_cli.objectives.base import Objective, Start
from mexma_cli.objectives.clft.settings import ClftSettings
from mexma_cli.objectives.views import PairViews


class Clft(Objective):
    """Anchored targets, with the encoder's own pooling and what comes after it.

    Args:
        encoder: The encoder that is trained.
        teacher: The encoder whose vectors are the anchors; it has the tokeniser and the width of the other.
    """

    def __init__(self, encoder: SentenceEncoder, settings: ClftSettings, teacher: SentenceEncoder) -> None:
        super().__init__(encoder)
        self.model = encoder.model
        self.after = encoder.modules
        # A SentenceEncoder is no module: not trained, not in checkpoints, always in evaluation mode. A run
        # that is resumed makes it again from what the phase began with.
        self.teacher = teacher
        self.teacher.model.eval()
        self.weights = {"anchor": 1.0, "cross": settings.cross}

    @classmethod
    def check(cls, start: Start, settings: ClftSettings) -> None:
        """The teacher has the encoder's tokeniser and width; any pooling is trained."""
        teacher_of(start.encoder, settings)

    @classmethod
    def build(cls, start: Start, settings: ClftSettings) -> Clft:
        """With the teacher that the settings name, or a copy of the encoder."""
        return cls(start.encoder, settings, teacher_of(start.encoder, settings))

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
        return {
            "anchor": losses.cosine_distance(target, anchors),
            "cross": losses.cosine_distance(target, source),
        }

    def _bring_teacher(self, device: torch.device) -> None:
        if self.teacher.device != device:
            self.teacher.model.to(device)
            self.teacher.modules.to(device)


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


def teacher_of(encoder: SentenceEncoder, settings: ClftSettings) -> SentenceEncoder:
    """A copy of the encoder, or the encoder that the recipe names.

    Raises:
        MexmaError: The named one has another width or tokeniser, or needs a prefix.
    """
    if settings.teacher is None:
        return copy.deepcopy(encoder)
    teacher = SentenceEncoder.load(settings.teacher, "cpu")
    teacher.backend = encoder.backend
    what = f"the teacher {settings.teacher}"
    if teacher.dim != encoder.dim:
        raise MexmaError(
            f"{what} has vectors of {teacher.dim} numbers, and {encoder.name} of {encoder.dim}",
            "the anchors' distance needs equal widths",
        )
    if teacher.tokenizer.get_vocab() != encoder.tokenizer.get_vocab():
        raise MexmaError(
            f"{what} has another tokeniser than {encoder.name}", "the prepared pairs are token ids of one"
        )
    if teacher.prefix:
        raise MexmaError(f"{what} puts {teacher.prefix!r} before every sentence, the prepared pairs do not")
    return teacher
