"""The authors' training step, made again on our weights (facebookresearch/mexma), for benchmarks/train.py."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import nn

from mexma_cli.encoder.model.attention import run_packed
from mexma_cli.encoder.model.packing import PackedBatch, pack
from mexma_cli.objectives import losses


def parts_of(views: Any) -> tuple[list[torch.Tensor], list[torch.Tensor], dict[str, list[int]]]:
    """A batch's sentences, clean and then masked; what each masked token was (-100: not masked); and which
    of the clean ones are of the source and of the target."""
    batch, count = views.batch, len(views.partners)
    labels = torch.full_like(batch.input_ids[sum(batch.lengths[:count]) :], -100)
    labels[views.masked_tokens] = views.labels
    return (
        list(batch.input_ids.split(list(batch.lengths))),
        list(labels.split(list(batch.lengths[count:]))),
        {"source": views.source_rows.tolist(), "target": views.target_rows.tolist()},
    )


def sentence_terms(views: Any, source: torch.Tensor, target: torch.Tensor) -> dict[str, torch.Tensor]:
    """Alignment and KoLeo of the clean sentence vectors, in float32."""
    source, target = source.float(), target.float()
    identities = (views.identities[views.source_rows], views.identities[views.target_rows])
    koleo = sum(map(losses.koleo, (source, target), identities)) / 2
    return {"alignment": nn.functional.mse_loss(source, target), "koleo": koleo}


class Padded(nn.Module):
    """Their step without xformers: padded, four passes, logits of all tokens."""

    def __init__(self, mexma: Any) -> None:
        super().__init__()
        self.model, self.head, self.bias = mexma.model, mexma.head.layers, mexma.head.bias
        self.model.set_attn_implementation("sdpa")
        for config in (self.model.config, self.head.config):
            config._attn_implementation = "sdpa"

    def forward(self, views: Any) -> dict[str, torch.Tensor]:
        """Both unmasking losses, alignment and KoLeo, with their weights in the paper's formula."""
        sentences, wanted, rows = parts_of(views)
        count = len(wanted)
        clean, masked, masks, targets = {}, {}, {}, {}
        for side, where in rows.items():
            clean[side], _ = self._encode([sentences[row] for row in where])
            masked[side], masks[side] = self._encode([sentences[count + row] for row in where])
            targets[side] = nn.utils.rnn.pad_sequence([wanted[row] for row in where], True, -100)
        terms = {}
        words = self.model.get_input_embeddings().weight
        for side, other in (("source", "target"), ("target", "source")):
            states = torch.cat([clean[other][:, :1], masked[side][:, 1:]], dim=1)
            blocked = (1.0 - masks[side][:, None, None, :].float()) * torch.finfo(torch.float32).min
            logits = nn.functional.linear(self.head(states, blocked).last_hidden_state, words, self.bias)
            terms[f"unmask_{side}"] = nn.functional.cross_entropy(
                logits.flatten(0, 1), targets[side].flatten()
            )
        return terms | sentence_terms(views, clean["source"][:, 0], clean["target"][:, 0])

    def _encode(self, sentences: list[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        ids = nn.utils.rnn.pad_sequence(sentences, True, self.model.config.pad_token_id)
        mask = (ids != self.model.config.pad_token_id).long()
        return self.model(input_ids=ids, attention_mask=mask).last_hidden_state, mask


class Packed(nn.Module):
    """Their step with xformers: four passes without padding, the head's too, logits of all tokens.

    They embed the words on padded batches and look at every sentence on the way into and out of the head.
    This does not, and has the attention that is best here, so it is the faster of the two.
    """

    def __init__(self, mexma: Any) -> None:
        super().__init__()
        self.model, self.head = mexma.model, mexma.head
        self.encoder = mexma.encoder

    def forward(self, views: Any) -> dict[str, torch.Tensor]:
        """As `Padded`."""
        sentences, wanted, rows = parts_of(views)
        batches: dict[str, PackedBatch] = {}
        clean, masked = {}, {}
        for side, where in rows.items():
            of_side = self._pack([sentences[row] for row in where])
            clean[side] = self._run(of_side)[of_side.cu_seqlens[:-1].long()]
            batches[side] = self._pack([sentences[len(wanted) + row] for row in where])
            masked[side] = self._run(batches[side])
        terms = {}
        words = self.model.get_input_embeddings().weight
        for side, other in (("source", "target"), ("target", "source")):
            hidden = self.head(masked[side], clean[other], batches[side], self.encoder.backend)
            logits = nn.functional.linear(hidden, words, self.head.bias)
            labels = torch.cat([wanted[row] for row in rows[side]])
            terms[f"unmask_{side}"] = nn.functional.cross_entropy(logits, labels)
        return terms | sentence_terms(views, clean["source"], clean["target"])

    def _pack(self, sentences: list[torch.Tensor]) -> PackedBatch:
        lengths = tuple(map(len, sentences))
        borders = pack([np.zeros(length) for length in lengths], self.encoder.transformer.first_position)
        return replace(borders.to(sentences[0].device), input_ids=torch.cat(sentences))

    def _run(self, batch: PackedBatch) -> torch.Tensor:
        return run_packed(self.model, batch, self.encoder.backend)
