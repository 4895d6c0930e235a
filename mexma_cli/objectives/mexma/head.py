"""The unmasking head: trained on top of the encoder, and not exported."""

from __future__ import annotations

import torch
from torch import nn
from transformers import XLMRobertaConfig
from transformers.models.xlm_roberta.modeling_xlm_roberta import XLMRobertaEncoder

from mexma_cli.encoder.model.attention import IMPLEMENTATION, Backend, attention_arguments
from mexma_cli.encoder.model.packing import PackedBatch
from mexma_cli.objectives.mexma.settings import Head


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
        self,
        hidden: torch.Tensor,
        context: torch.Tensor,
        batch: PackedBatch,
        backend: Backend,
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
