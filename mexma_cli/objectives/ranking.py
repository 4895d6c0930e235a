"""Translation ranking: a siamese encoder trained by InfoNCE, alone or with TLM beside it.

Without more it is the contrastive baseline of MEXMA's Table 6 (section 5.2; van den Oord et al. 2019; the
architecture of LaBSE). One way, behind a tanh layer, it is TR as DAP compares with it (its section 3.3.1 and
released program), and with `tlm` TR+TLM.
"""

from __future__ import annotations

import torch
from torch import nn

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.objectives import losses
from mexma_cli.objectives.base import Objective
from mexma_cli.objectives.shared_settings import RankingSettings
from mexma_cli.objectives.views import PairViews


class TranslationRanking(Objective):
    """Translations towards each other, all other sentences of the batch away, by their CLS vectors."""

    def __init__(self, encoder: SentenceEncoder, settings: RankingSettings, ngrams: bool = False) -> None:
        super().__init__(encoder, ngrams)
        self.settings = settings
        self.model = encoder.model
        width = self.model.config.hidden_size
        self.projection = TanhProjection(width) if settings.projection == "tanh" else None
        self.weights = {"contrastive": 1.0}

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


class TanhProjection(nn.Module):
    """tanh(W h + b), which a contrastive loss looks through; trained and then thrown away.

    As in DAP's released program: W is normal with a deviation of 0.02, b starts at 0. Its paper has none.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.dense = nn.Linear(width, width)
        nn.init.normal_(self.dense.weight, std=0.02)
        nn.init.zeros_(self.dense.bias)

    def forward(self, vectors: torch.Tensor) -> torch.Tensor:
        """[B, dim] to [B, dim]."""
        return torch.tanh(self.dense(vectors))
