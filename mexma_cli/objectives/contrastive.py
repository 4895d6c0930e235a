"""The contrastive baseline of the paper's Table 6: a siamese encoder, trained by InfoNCE alone.

Paper section 5.2 (van den Oord et al. 2019; the architecture of LaBSE). No masked views, no head.
"""

from __future__ import annotations

import torch
from torch import nn

from mexma_cli.encoder.attention import run_packed
from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.objectives import losses
from mexma_cli.objectives.base import Objective, PairViews, encoder_players
from mexma_cli.recipe import ContrastiveObjective


class Contrastive(Objective):
    """Translations towards each other, all other sentences of the batch away, by their CLS vectors."""

    def __init__(self, encoder: SentenceEncoder, settings: ContrastiveObjective) -> None:
        super().__init__()
        self.encoder = encoder
        self.settings = settings
        self.model = encoder.model
        self.weights = {"contrastive": 1.0}

    def views(self) -> None:
        """The clean sentences alone."""
        return None

    def forward(self, views: PairViews) -> dict[str, torch.Tensor]:
        """InfoNCE between the clean sentence vectors."""
        hidden = run_packed(self.model, views.batch, self.encoder.backend)
        sentences = hidden[views.batch.cu_seqlens[:-1].long()]
        source, target, repeated = views.negatives(sentences, self.settings.gather)
        settings = self.settings
        loss = losses.info_nce(
            source, target, settings.temperature, repeated, settings.margin, settings.symmetric
        )
        return {"contrastive": loss}

    def players(self) -> list[dict[str, list[nn.Parameter]]]:
        """One optimiser; the word embeddings apart, so that their rate can differ."""
        return encoder_players(self, self.model)

    def export(self) -> SentenceEncoder:
        """The encoder."""
        return self.encoder
