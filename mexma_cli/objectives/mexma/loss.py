"""MEXMA: masked tokens of one language, predicted with the sentence vector of the other.

Paper section 3. Four views (both sides, clean and masked) go through the encoder as one packed batch;
the unmasking head sees the masked ones, each with the clean CLS of its translation in front; the clean
CLS vectors are aligned, and KoLeo spreads them.
"""

from __future__ import annotations

import torch
from torch import nn
from transformers import XLMRobertaConfig
from transformers.models.xlm_roberta.modeling_xlm_roberta import XLMRobertaEncoder

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.encoder.model.attention import IMPLEMENTATION, Backend, attention_arguments, run_packed
from mexma_cli.encoder.model.packing import PackedBatch
from mexma_cli.errors import MexmaError
from mexma_cli.objectives import losses
from mexma_cli.objectives.base import Objective, Start, check_first_token, check_mask_token
from mexma_cli.objectives.gather import all_rows
from mexma_cli.objectives.masking import Masking, masked_views
from mexma_cli.objectives.mexma.settings import Head, MexmaSettings
from mexma_cli.objectives.ranking import contrastive_terms, contrastive_weights
from mexma_cli.objectives.views import PairViews, TokenPairs


class Mexma(Objective):
    """The MEXMA objective on an encoder with CLS pooling."""

    def __init__(self, encoder: SentenceEncoder, settings: MexmaSettings) -> None:
        super().__init__(encoder, ngrams=True)
        self.settings = settings
        self.model = encoder.model
        words = self.model.get_input_embeddings().weight
        self.head = UnmaskingHead(settings.head, encoder.dim, len(words))
        rest = {
            "alignment": settings.alpha,
            "koleo": 2 * settings.gamma,  # the term is the mean of both sides
        }
        self.weights = {"unmask_source": settings.beta, "unmask_target": settings.beta}
        self.weights |= {name: weight for name, weight in rest.items() if weight}
        if settings.contrastive:
            self.weights |= contrastive_weights(settings, settings.contrastive)
        self.takes = ("negatives",) if settings.hard_negatives else ()
        self.masking = Masking(settings.masking, settings.mask_share, settings.random_share)

    @classmethod
    def check(cls, start: Start, settings: MexmaSettings) -> None:
        """The encoder's vector is its first token's, its width fits the head, and it has a mask token."""
        check_first_token(settings.name, start.encoder)
        if start.encoder.dim % settings.head.heads:
            raise MexmaError(
                f"objective.head.heads is {settings.head.heads}, "
                f"which does not divide the encoder's width {start.encoder.dim}"
            )
        check_mask_token(settings.name, start.encoder)

    def batch(self, pairs: TokenPairs) -> PairViews:
        """Both sides clean and both masked; or of each pair one side clean, the other masked, if the
        architecture is not symmetric."""
        return masked_views(pairs, self.vocabulary, self.masking, self.settings.symmetric)

    def forward(self, views: PairViews) -> dict[str, torch.Tensor]:
        """Unmasking of each side; alignment, KoLeo (mean of both sides), InfoNCE where they have a weight."""
        settings = self.settings
        clean, masked = views.split()
        hidden, states = run_packed(self.model, views.batch, self.encoder.backend).split(
            [len(clean.input_ids), len(masked.input_ids)]
        )
        sentences = hidden[clean.cu_seqlens[:-1].long()]
        context = sentences[views.partners]
        # Paper section 5.1: without token gradients "Â/B̂ have no gradients flowing back to the encoder".
        unmasked = self.head(
            states if settings.token_gradients else states.detach(),
            context if settings.sentence_gradients else context.detach(),
            masked,
            self.encoder.backend,
        )[views.masked_tokens]
        sides = [views.source_labels, len(views.labels) - views.source_labels]
        of_source, of_target = zip(unmasked.split(sides), views.labels.split(sides), strict=True)
        terms = {"unmask_source": self._unmasking(*of_source), "unmask_target": self._unmasking(*of_target)}
        if settings.alpha and settings.align == "masked":
            terms["alignment"] = losses.alignment(states[masked.cu_seqlens[:-1].long()], context)
        elif settings.alpha:
            terms["alignment"] = losses.alignment(sentences[views.source_rows], sentences[views.target_rows])
        if settings.gamma:
            source_koleo = self._koleo(views, sentences, views.source_rows)
            terms["koleo"] = (source_koleo + self._koleo(views, sentences, views.target_rows)) / 2
        if settings.contrastive:
            terms |= contrastive_terms(views, sentences, settings)
        return terms

    def _unmasking(self, hidden: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        words = self.model.get_input_embeddings().weight
        return losses.unmasking(hidden, words, self.head.bias, labels)

    def _koleo(self, views: PairViews, sentences: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        vectors, identities = sentences[rows], views.identities[rows]
        if self.settings.koleo_global:
            vectors, identities = all_rows(vectors), all_rows(identities)
        return losses.koleo(vectors, identities, self.settings.koleo_normalise)


class UnmaskingHead(nn.Module):
    """Transformer layers over the masked tokens, with the other side's sentence vector at position 0.

    Paper section 7.2 (six layers); width, heads and epsilon as in the authors' code. The vocabulary
    matrix is the encoder's word embeddings, with a bias of its own.
    """

    def __init__(self, settings: Head, width: int, vocabulary: int) -> None:
        super().__init__()
        config = XLMRobertaConfig(
            hidden_size=width,
            num_hidden_layers=settings.layers,
            num_attention_heads=settings.heads,
            intermediate_size=settings.ffn,
            layer_norm_eps=settings.layer_norm_eps,
            hidden_dropout_prob=settings.dropout,
            attention_probs_dropout_prob=0.0,
            attn_implementation=IMPLEMENTATION,
        )
        self.layers = XLMRobertaEncoder(config)
        self.bias = nn.Parameter(torch.zeros(vocabulary))
        last = self.layers.layer[-1].output.LayerNorm
        nn.init.constant_(last.weight, settings.output_scale)

    def forward(
        self, hidden: torch.Tensor, context: torch.Tensor, batch: PackedBatch, backend: Backend
    ) -> torch.Tensor:
        """The states from which the masked tokens' logits are made.

        Args:
            hidden: [T, dim] of the masked sentences.
            context: [B, dim], the sentence vector that takes each first token's place.
            batch: The packed masked sentences (only its borders are read).

        Returns:
            [T, dim].
        """
        starts = batch.cu_seqlens[:-1].long()
        hidden = hidden.index_copy(0, starts, context.to(hidden.dtype))
        return self.layers(hidden[None], None, **attention_arguments(batch, backend)).last_hidden_state[0]
