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
from mexma_cli.objectives.shared_settings import InfoNceSettings, RankingSettings
from mexma_cli.objectives.views import PairViews


class TranslationRanking(Objective):
    """Translations towards each other, all other sentences of the batch away, by their CLS vectors."""

    def __init__(self, encoder: SentenceEncoder, settings: RankingSettings, ngrams: bool = False) -> None:
        super().__init__(encoder, ngrams)
        self.settings = settings
        self.model = encoder.model
        width = self.model.config.hidden_size
        self.projection = TanhProjection(width) if settings.projection == "tanh" else None
        self.weights = contrastive_weights(settings)
        self.takes = ("negatives",) if settings.hard_negatives else ()

    def ranked(self, views: PairViews, hidden: torch.Tensor) -> dict[str, torch.Tensor]:
        """The terms of the clean sentences' states, [T, dim] (whatever comes after them is not read)."""
        sentences = hidden[views.batch.cu_seqlens[: len(views.identities)].long()]
        if self.projection is not None:
            sentences = self.projection(sentences)
        return contrastive_terms(views, sentences, self.settings, self.settings.direction == "both")

    @property
    def words(self) -> torch.Tensor:
        """The encoder's word embeddings, [V, dim]."""
        return self.model.get_input_embeddings().weight


def contrastive_weights(settings: InfoNceSettings, weight: float = 1.0) -> dict[str, float]:
    """The weights of `contrastive_terms`, `weight` in all."""
    share = settings.hard_negatives
    return {"contrastive": weight * (1 - share)} | ({"hard_negatives": weight * share} if share else {})


def contrastive_terms(
    views: PairViews, sentences: torch.Tensor, settings: InfoNceSettings, symmetric: bool = True
) -> dict[str, torch.Tensor]:
    """InfoNCE over the batch; and over each pair's own hard negatives, where the settings give that a share.

    Args:
        sentences: [C, dim], vectors of the clean sentences.
        symmetric: As for `losses.info_nce`.
    """
    source, target, repeated = views.negatives(sentences, settings.gather)
    temperature = settings.temperature
    terms = {
        "contrastive": losses.info_nce(source, target, temperature, repeated, settings.margin, symmetric)
    }
    if settings.hard_negatives:  # no sentence of another process: a mean over the own pairs
        terms["hard_negatives"] = losses.hard_negatives(
            sentences[views.source_rows],
            sentences[views.target_rows],
            sentences[views.negative_rows],
            views.negative_pairs,
            temperature,
        )
    return terms


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
