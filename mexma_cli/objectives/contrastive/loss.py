"""Translation ranking, alone or with TLM beside it."""

from __future__ import annotations

import torch

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.encoder.model.attention import run_packed
from mexma_cli.objectives.base import Start
from mexma_cli.objectives.checks import check_first_token, check_mask_token
from mexma_cli.objectives.contrastive.settings import ContrastiveSettings
from mexma_cli.objectives.contrastive.tlm import TranslationLM, concatenated_views
from mexma_cli.objectives.masking import Masking
from mexma_cli.objectives.ranking import TranslationRanking
from mexma_cli.objectives.views import PairViews, TokenPairs


class Contrastive(TranslationRanking):
    """Translation ranking, and TLM where the settings have it.

    Args:
        encoder: The encoder that is trained.
        start: The masked-LM checkpoint that the encoder is from, for TLM's head; None: it starts untrained.
    """

    def __init__(
        self, encoder: SentenceEncoder, settings: ContrastiveSettings, start: str | None = None
    ) -> None:
        super().__init__(encoder, settings, ngrams=True)
        self.masking: Masking | None = None
        if settings.tlm is not None:
            tlm = settings.tlm
            self.masking = Masking(tlm.masking, tlm.mask_share, tlm.random_share)
            self.tlm = TranslationLM(encoder, start, tlm.output_scale)
            self.weights = {**self.weights, "tlm": tlm.weight}

    @classmethod
    def check(cls, start: Start, settings: ContrastiveSettings) -> None:
        """The encoder's vector is its first token's, and for TLM it has a mask token."""
        check_first_token(settings.name, start.encoder)
        if settings.tlm is not None:
            check_mask_token(settings.name, start.encoder)

    @classmethod
    def build(cls, start: Start, settings: ContrastiveSettings) -> Contrastive:
        """With TLM's head from the encoder's checkpoint."""
        return cls(start.encoder, settings, start.checkpoint)

    def batch(self, pairs: TokenPairs) -> PairViews:
        """Both sides clean, and for TLM the pairs as one masked sequence each."""
        if self.masking is None:
            return super().batch(pairs)
        return concatenated_views(pairs, self.vocabulary, self.masking)

    def forward(self, views: PairViews) -> dict[str, torch.Tensor]:
        """InfoNCE between the clean sentence vectors, and with hard negatives; TLM."""
        hidden = run_packed(self.model, views.batch, self.encoder.backend)
        terms = self.ranked(views, hidden)
        if self.masking is not None:
            clean, _ = views.split()
            terms["tlm"] = self.tlm(hidden[len(clean.input_ids) :], self.words, views)
        return terms
