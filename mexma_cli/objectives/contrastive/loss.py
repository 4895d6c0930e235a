"""Translation ranking, alone or with TLM beside it."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.encoder.model.attention import run_packed
from mexma_cli.objectives import losses
from mexma_cli.objectives.base import Start, check_first_token, check_mask_token
from mexma_cli.objectives.contrastive.settings import ContrastiveSettings
from mexma_cli.objectives.masking import MaskedSequences, Masking, VocabularyHead, load_masked_lm, with_masked
from mexma_cli.objectives.ranking import TranslationRanking
from mexma_cli.objectives.views import PairViews, StackedSides, TokenPairs, Vocabulary


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


class TranslationLM(nn.Module):
    """TLM: masked words of a pair, which is one sequence to the encoder (Conneau and Lample 2019).

    As in DAP's comparison (its equation 2 and program): an extra pass of the encoder over both sentences, 20%
    of their tokens masked, and the masked-LM head of the checkpoint that the encoder is from, tied to the
    encoder's word embeddings.

    Args:
        encoder: The encoder that is trained.
        start: Masked-LM checkpoint that the head is taken from; None: it starts untrained.
        output_scale: Of an untrained head (`VocabularyHead.fresh`).
    """

    def __init__(self, encoder: SentenceEncoder, start: str | None, output_scale: float) -> None:
        super().__init__()
        config = encoder.model.config
        self.head = VocabularyHead.fresh(config, output_scale) if start is None else load_masked_lm(start)[1]

    def forward(self, states: torch.Tensor, words: torch.Tensor, views: PairViews) -> torch.Tensor:
        """Mean cross-entropy over the masked tokens of all processes.

        Args:
            states: [T, dim] of the concatenated pairs.
            words: [V, dim], the encoder's word embeddings.
        """
        found = self.head(states[views.masked_tokens])
        return losses.unmasking(found, words, self.head.bias, views.labels)


def concatenated_views(pairs: TokenPairs, vocabulary: Vocabulary, masking: Masking) -> PairViews:
    """Both sides clean, and behind them each pair as one masked sequence, source before target."""
    sides = StackedSides.of(pairs, vocabulary)
    return with_masked(sides.views(), _joined(sides, vocabulary), masking, vocabulary, pairs.seed)


def _joined(sides: StackedSides, vocabulary: Vocabulary) -> MaskedSequences:
    """Pairs as one sequence each, by length. A target's tokens have the positions that they have alone."""
    count = len(sides.of_run) // 2
    skipped = int(vocabulary.joint is None)
    targets = [ids.copy() for ids in sides.ids[count : 2 * count]]
    for target in targets:
        target[0] = vocabulary.joint or 0
    order = np.argsort([len(sides.ids[i]) + len(targets[i]) for i in range(count)], kind="stable")
    pairs = [(sides.ids[i], targets[i][skipped:]) for i in order]
    positions = [(np.arange(len(x)), np.arange(len(y)) + skipped) for x, y in pairs]
    return MaskedSequences(
        [np.concatenate(pair) for pair in pairs],
        sides.of_run[order],
        np.concatenate([part for pair in positions for part in pair]),
        np.concatenate([np.repeat([True, False], [len(x), len(y)]) for x, y in pairs]),
    )
