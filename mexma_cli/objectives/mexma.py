"""MEXMA: masked tokens of one language, predicted with the sentence vector of the other.

Paper section 3. Four views (both sides, clean and masked) go through the encoder as one packed batch;
the unmasking head sees the masked ones, each with the clean CLS of its translation in front; the clean
CLS vectors are aligned, and KoLeo spreads them.
"""

from __future__ import annotations

import torch
from torch import nn

from mexma_cli.encoder.attention import run_packed
from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.encoder.packing import PackedBatch
from mexma_cli.objectives import losses
from mexma_cli.objectives.base import Masking, Objective, PairViews, encoder_players
from mexma_cli.objectives.heads import UnmaskingHead
from mexma_cli.recipe import MexmaObjective


class Mexma(Objective):
    """The MEXMA objective on an encoder with CLS pooling."""

    def __init__(self, encoder: SentenceEncoder, settings: MexmaObjective) -> None:
        super().__init__()
        self.encoder = encoder
        self.settings = settings
        self.model = encoder.model
        words = self.model.get_input_embeddings().weight
        self.head = UnmaskingHead(settings.head, encoder.dim, len(words))
        self.weights = {
            "unmask_source": settings.beta,
            "unmask_target": settings.beta,
            "alignment": settings.alpha,
            "koleo": 2 * settings.gamma,  # the term is the mean of both sides
        } | ({"contrastive": settings.contrastive} if settings.contrastive else {})

    def views(self) -> Masking:
        """Clean and masked, both sides."""
        return Masking(self.settings.masking, self.settings.mask_share, self.settings.random_share)

    def forward(self, views: PairViews) -> dict[str, torch.Tensor]:
        """Unmasking of each side, alignment, KoLeo (mean of both sides), InfoNCE where it has a weight."""
        clean, masked = split_views(views)
        hidden = run_packed(self.model, views.batch, self.encoder.backend)
        tokens = int(sum(clean.lengths))
        sentences = hidden[clean.cu_seqlens[:-1].long()]
        context = sentences[views.partners]
        unmasked = self.head(hidden[tokens:], context, masked, self.encoder.backend)[views.masked_tokens]
        source, target = sentences[views.source_rows], sentences[views.target_rows]
        terms = {
            "unmask_source": self._unmasking(unmasked, views, views.label_is_source),
            "unmask_target": self._unmasking(unmasked, views, ~views.label_is_source),
            "alignment": losses.alignment(source, target),
            "koleo": (losses.koleo(source) + losses.koleo(target)) / 2,
        }
        if self.settings.contrastive:
            source, target, repeated = views.negatives(sentences, self.settings.gather)
            terms["contrastive"] = losses.info_nce(source, target, self.settings.temperature, repeated)
        return terms

    def _unmasking(self, hidden: torch.Tensor, views: PairViews, side: torch.Tensor) -> torch.Tensor:
        words = self.model.get_input_embeddings().weight
        return losses.unmasking(hidden[side], words, self.head.bias, views.labels[side])

    def players(self) -> list[dict[str, list[nn.Parameter]]]:
        """One optimiser; the word embeddings apart, so that their rate can differ."""
        return encoder_players(self, self.model)

    def export(self) -> SentenceEncoder:
        """The encoder; the head is left behind."""
        return self.encoder


def split_views(views: PairViews) -> tuple[PackedBatch, PackedBatch]:
    """The borders of the clean and of the masked half, each as a packed batch of its own."""
    batch, count = views.batch, len(views.partners)
    lengths = batch.lengths[:count]
    tokens = int(sum(lengths))
    borders = batch.cu_seqlens[: count + 1]
    clean = PackedBatch(batch.input_ids[:tokens], batch.position_ids[:tokens], borders, lengths)
    masked = PackedBatch(batch.input_ids[tokens:], batch.position_ids[tokens:], borders, lengths)
    return clean, masked
