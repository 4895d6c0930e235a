"""CLFT: a new language for an encoder that is good at one (Campbell and Hathaway 2023).

The targets' vectors stay where a frozen copy of the encoder has them, and the sources' are drawn to their
translations: mean(1 - f(y) . f_s(y)) + 0.4 mean(1 - f(y) . f(x)), with f of unit length. No negatives.

With another teacher in the place of the copy it is distillation. One with another tokeniser reads the targets
in its own tokens, which `prepare` stored; and one of another width is compared with A f(y), where the matrix
A is trained along and left behind (TinyBERT's W_h, Jiao et al. 2020, section 3).
"""

from __future__ import annotations

import copy
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.encoder.model.attention import run_packed
from mexma_cli.encoder.model.packing import PackedBatch, pack
from mexma_cli.encoder.model.pooling import pool
from mexma_cli.errors import MexmaError
from mexma_cli.objectives import losses
from mexma_cli.objectives.base import Objective, Start
from mexma_cli.objectives.clft.settings import ClftSettings
from mexma_cli.objectives.views import PairViews, TokenPairs, Vocabulary


@dataclass(frozen=True)
class ClftViews(PairViews):
    """The clean sentences, and the targets as the teacher reads them.

    Attributes:
        anchors: The B targets by length.
        anchor_rows: int64 [B], where each pair's target stands among them.
    """

    anchors: PackedBatch
    anchor_rows: torch.Tensor


class Clft(Objective):
    """Anchored targets, with the encoder's own pooling and what comes after it.

    Args:
        encoder: The encoder that is trained.
        teacher: The encoder whose vectors are the anchors.
    """

    def __init__(self, encoder: SentenceEncoder, settings: ClftSettings, teacher: SentenceEncoder) -> None:
        super().__init__(encoder)
        self.model = encoder.model
        self.after = encoder.modules
        # A SentenceEncoder is no module: not trained, not in checkpoints, always in evaluation mode. A run
        # that is resumed makes it again from what the phase began with.
        self.teacher = teacher
        self.teacher.model.eval()
        self.teachers_vocabulary = Vocabulary.of(teacher, ngrams=True)
        self.as_teacher: nn.Linear | None = None
        if teacher.dim != encoder.dim:
            self.as_teacher = nn.Linear(encoder.dim, teacher.dim, bias=False)
        self.takes = ("teacher",) if settings.teacher is not None else ()
        self.reads_alike = not self.takes or (
            not teacher.prefix and teacher.tokenizer.get_vocab() == encoder.tokenizer.get_vocab()
        )
        self.weights = {"anchor": 1.0, "cross": settings.cross}

    @classmethod
    def check(cls, start: Start, settings: ClftSettings) -> None:
        """The teacher can be had; any pooling is trained."""
        teacher_of(start.encoder, settings)

    @classmethod
    def build(cls, start: Start, settings: ClftSettings) -> Clft:
        """With the teacher that the settings name, or a copy of the encoder."""
        return cls(start.encoder, settings, teacher_of(start.encoder, settings))

    def batch(self, pairs: TokenPairs) -> ClftViews:
        """Both sides clean, and the targets for the teacher: in its tokens, or else in the encoder's."""
        views = super().batch(pairs)
        vocabulary, targets = self.vocabulary, [target for _, target in pairs.ids]
        if any(pairs.extra.get("teacher", ())):
            vocabulary, targets = self.teachers_vocabulary, [ids for (ids,) in pairs.extra["teacher"]]
        elif not self.reads_alike:
            raise MexmaError(
                f"the pairs have no tokens for the teacher {self.teacher.name}", "run `mexma prepare` again"
            )
        ids, extra = [vocabulary.whole(target) for target in targets], None
        if vocabulary.merge_split_words is not None:
            ids, extra = vocabulary.merge_split_words(ids)
        order = np.argsort([len(sentence) for sentence in ids], kind="stable")
        return ClftViews(
            **vars(views),
            anchors=pack([ids[row] for row in order], vocabulary.first_position, extra),
            anchor_rows=torch.from_numpy(np.argsort(order)),
        )

    def forward(self, views: PairViews) -> dict[str, torch.Tensor]:
        """The targets' distance to the teacher's vectors, and that to their translations."""
        assert isinstance(views, ClftViews)
        with torch.no_grad():
            if self.teacher.device != (device := views.anchor_rows.device):
                self.teacher.model.to(device)
                self.teacher.modules.to(device)
            anchors = _vectors(self.teacher, views.anchors)[views.anchor_rows]
        vectors = _vectors(self.encoder, views.batch)
        source, target = vectors[views.source_rows], vectors[views.target_rows]
        return {
            "anchor": losses.cosine_distance(self.as_teacher(target) if self.as_teacher else target, anchors),
            "cross": losses.cosine_distance(target, source),
        }


def _vectors(encoder: SentenceEncoder, batch: PackedBatch) -> torch.Tensor:
    """Sentence vectors as `embed` makes them, with gradients: float32 [B, dim]."""
    hidden = run_packed(encoder.model, batch, encoder.backend).float()
    with torch.autocast(hidden.device.type, enabled=False):
        return encoder.modules(pool(hidden, batch, encoder.pooling))


def teacher_of(encoder: SentenceEncoder, settings: ClftSettings) -> SentenceEncoder:
    """A copy of the encoder, or the encoder that the recipe names."""
    if settings.teacher is None:
        return copy.deepcopy(encoder)
    teacher = SentenceEncoder.load(settings.teacher, "cpu")
    teacher.backend = encoder.backend
    teacher.truncate(None)
    return teacher
