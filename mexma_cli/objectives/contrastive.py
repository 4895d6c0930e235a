"""Translation ranking: a siamese encoder trained by InfoNCE, alone or with TLM beside it.

Without more it is the contrastive baseline of MEXMA's Table 6 (section 5.2; van den Oord et al. 2019; the
architecture of LaBSE). One way, behind a tanh layer, it is TR as DAP compares with it (its section 3.3.1 and
released program), and with `tlm` TR+TLM.
"""

from __future__ import annotations

import torch

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.encoder.model.attention import run_packed
from mexma_cli.objectives import losses
from mexma_cli.objectives.base import (
    Masking,
    Objective,
    PairViews,
    Rebuilding,
    encoder_players,
    split_views,
)
from mexma_cli.objectives.heads import TanhProjection
from mexma_cli.objectives.tlm import TranslationLM
from mexma_cli.recipe.objectives import ContrastiveObjective, Ranking


class TranslationRanking(Objective):
    """Translations towards each other, all other sentences of the batch away, by their CLS vectors."""

    def __init__(self, encoder: SentenceEncoder, settings: Ranking) -> None:
        super().__init__()
        self.encoder = encoder
        self.settings = settings
        self.model = encoder.model
        width = self.model.config.hidden_size
        self.projection = TanhProjection(width) if settings.projection == "tanh" else None
        self.weights = {"contrastive": 1.0}

    def views(self) -> Masking | Rebuilding | None:
        """The clean sentences alone."""
        return None

    def forward(self, views: PairViews) -> dict[str, torch.Tensor]:
        """InfoNCE between the clean sentence vectors."""
        return {"contrastive": self.ranked(views, run_packed(self.model, views.batch, self.encoder.backend))}

    def ranked(self, views: PairViews, hidden: torch.Tensor) -> torch.Tensor:
        """InfoNCE of the clean sentences' states, [T, dim] (whatever comes after them is not read)."""
        settings = self.settings
        sentences = hidden[views.batch.cu_seqlens[: len(views.identities)].long()]
        if self.projection is not None:
            sentences = self.projection(sentences)
        source, target, repeated = views.negatives(sentences, settings.gather)
        return losses.info_nce(
            source, target, settings.temperature, repeated, settings.margin, settings.direction == "both"
        )

    @property
    def words(self) -> torch.Tensor:
        """The encoder's word embeddings, [V, dim]."""
        return self.model.get_input_embeddings().weight

    def players(self) -> list[dict[str, list[torch.nn.Parameter]]]:
        """One optimiser; the word embeddings apart, so that their rate can differ."""
        return encoder_players(self, self.model)

    def export(self) -> SentenceEncoder:
        """The encoder; projection and heads are left behind."""
        return self.encoder


class Contrastive(TranslationRanking):
    """Translation ranking, and TLM where the settings have it.

    Args:
        encoder: That is trained.
        start: The masked-LM checkpoint that the encoder is from, for TLM's head; None: it starts untrained.
    """

    def __init__(
        self, encoder: SentenceEncoder, settings: ContrastiveObjective, start: str | None = None
    ) -> None:
        super().__init__(encoder, settings)
        self.masking: Masking | None = None
        if settings.tlm is not None:
            tlm = settings.tlm
            self.masking = Masking(tlm.masking, tlm.mask_share, tlm.random_share, concatenated=True)
            self.tlm = TranslationLM(encoder, start)
            self.weights = {**self.weights, "tlm": tlm.weight}

    def views(self) -> Masking | None:
        """The clean sentences, and for TLM the pairs as one masked sequence each."""
        return self.masking

    def forward(self, views: PairViews) -> dict[str, torch.Tensor]:
        """InfoNCE between the clean sentence vectors; TLM."""
        hidden = run_packed(self.model, views.batch, self.encoder.backend)
        terms = {"contrastive": self.ranked(views, hidden)}
        if self.masking is not None:
            clean, _ = split_views(views)
            terms["tlm"] = self.tlm(hidden[len(clean.input_ids) :], self.words, views)
        return terms
