"""TLM: masked words of a pair, which is one sequence to the encoder (Conneau and Lample 2019).

As in DAP's comparison (its equation 2 and program): an extra pass of the encoder over both sentences, 20%
of their tokens masked, and the masked-LM head of the checkpoint that the encoder is from.
"""

from __future__ import annotations

import torch
from torch import nn

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.encoder.loading.masked_lm import VocabularyHead, load_masked_lm
from mexma_cli.objectives import losses
from mexma_cli.objectives.base import PairViews


class TranslationLM(nn.Module):
    """The head, tied to the encoder's word embeddings.

    Args:
        encoder: That is trained.
        start: Masked-LM checkpoint that the head is taken from; None: it starts untrained.
    """

    def __init__(self, encoder: SentenceEncoder, start: str | None) -> None:
        super().__init__()
        config = encoder.model.config
        self.head = VocabularyHead.fresh(config) if start is None else load_masked_lm(start)[1]

    def forward(self, states: torch.Tensor, words: torch.Tensor, views: PairViews) -> torch.Tensor:
        """Mean cross-entropy over the masked tokens of all processes.

        Args:
            states: [T, dim] of the concatenated pairs.
            words: [V, dim], the encoder's word embeddings.
        """
        found = self.head(states[views.masked_tokens])
        return losses.unmasking(found, words, self.head.bias, views.labels)
