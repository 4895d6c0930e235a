"""Where the first token looks: entropy of the last layer's attention (paper section 5.6 and section 13).

Packed attention returns no weights. Here the last layer's queries and keys are caught on their way, and the
row of each sentence's first token is computed from them: softmax(q k / sqrt(d)).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel

from mexma_cli.encoder.encoder import TOKENS_PER_BATCH
from mexma_cli.encoder.model.attention import IMPLEMENTATION, attention_arguments, packed_attention
from mexma_cli.encoder.model.packing import PackedBatch, by_token_budget, pack
from mexma_cli.errors import MexmaError
from mexma_cli.evaluation.readers.aligned import AlignedFolder, language_list
from mexma_cli.reporting.attention_plot import AttentionRow
from mexma_cli.reporting.result import Result, describe
from mexma_cli.text.lines import is_blank

if TYPE_CHECKING:
    from mexma_cli.encoder.encoder import SentenceEncoder

log = logging.getLogger(__name__)

WATCHED = "mexma_packed_watched"


@dataclass(frozen=True)
class Entropy:
    """Mean entropies in nats over n sentences: of each head, and of the heads' mean distribution."""

    sentences: int
    heads: float
    mean: float
    heads_words: float
    """Without the first and the last token."""
    mean_words: float


def attention_rows(encoder: SentenceEncoder, sentences: Sequence[str]) -> Iterator[AttentionRow]:
    """The rows of all sentences, the longest first; memory is that of one batch."""
    tokens = encoder.tokenize(sentences)
    encoder.model.eval()
    for rows in by_token_budget([len(ids) for ids in tokens], TOKENS_PER_BATCH):
        batch = pack([tokens[row] for row in rows], encoder.transformer.first_position).to(encoder.device)
        for row, weights in zip(rows.tolist(), first_rows(encoder.model, batch), strict=True):
            names = encoder.tokenizer.convert_ids_to_tokens(tokens[row].tolist())
            yield AttentionRow(row, tuple(names), weights)


@torch.inference_mode()
def first_rows(model: PreTrainedModel, batch: PackedBatch) -> list[np.ndarray]:
    """Last layer's weights of each sentence's first token: float32 [heads, length], a sentence each."""
    seen: dict[str, Any] = {}
    with _watched(model):
        arguments = attention_arguments(batch, "bucketed") | {"packed_seen": seen}
        model(input_ids=batch.input_ids[None], position_ids=batch.position_ids[None], **arguments)
    query, key = seen["query"][0].float(), seen["key"][0].float()  # [H, T, D]
    scale = query.shape[-1] ** -0.5 if seen["scaling"] is None else seen["scaling"]
    sentence = torch.arange(len(batch.lengths), device=query.device).repeat_interleave(
        torch.tensor(batch.lengths, device=query.device)
    )
    first = query[:, batch.cu_seqlens[:-1].long()]
    scores = (first[:, sentence] * key).sum(dim=2) * scale
    return [torch.softmax(part, dim=1).cpu().numpy() for part in scores.split(list(batch.lengths), dim=1)]


def entropy(weights: np.ndarray) -> np.ndarray:
    """-sum p ln p over the last axis, in nats."""
    logs = np.log(weights, out=np.zeros_like(weights), where=weights > 0)
    return -(weights * logs).sum(axis=-1)


def mean_entropy(rows: Iterator[AttentionRow]) -> Entropy | None:
    """Over sentences that have tokens besides the first and the last; None where there is none."""
    found = []
    for row in rows:
        if len(row.tokens) > 2:
            parts = (row.weights, row.words)
            found.append([(entropy(part).mean(), entropy(part.mean(axis=0))) for part in parts])
    if not found:
        return None
    (heads, mean), (heads_words, mean_words) = np.mean(found, axis=0).tolist()
    return Entropy(len(found), heads, mean, heads_words, mean_words)


def evaluate(
    encoder: SentenceEncoder,
    source: AlignedFolder,
    languages: str | None,
    texts: Mapping[str, Sequence[str]],
    on_language: Callable[[], object],
) -> Result:
    """Mean entropies of every language, and their means over languages.

    Args:
        languages: As they were asked for.
        texts: Their sentences, by code.
        on_language: Called after every language.

    Raises:
        MexmaError: No sentence has a token.
    """
    rows: list[dict[str, Any]] = []
    for language, lines in texts.items():
        found = mean_entropy(attention_rows(encoder, lines))
        on_language()
        if found is None:
            log.warning("warning: %s is left out: none of its sentences has a token", language)
            continue
        rows.append(
            {
                "language": language,
                "sentences": found.sentences,
                "entropy": found.heads,
                "without <s> </s>": found.heads_words,
                "of mean": found.mean,
                "of mean without <s> </s>": found.mean_words,
            }
        )
    if not rows:
        raise MexmaError(f"{source.folder}: no sentence has a token")
    measured = [key for key in rows[0] if key not in ("language", "sentences")]
    scores = {key: sum(row[key] for row in rows) / len(rows) for key in measured}
    settings = source.settings() | {"languages": languages or "all", "layer": "last", "unit": "nats"}
    # The paper's languages are those of the 81 that LaBSE knows too: it does not list them.
    whole = languages == "81" and texts.keys() >= language_list("81").keys()
    is_flores = source.is_flores and source.split == "devtest"
    benchmark = "attention" if whole and is_flores else None
    return Result("attention", describe(encoder), settings, scores, rows, benchmark)


def rows_to_draw(
    encoder: SentenceEncoder, sentences: Sequence[str], texts: Mapping[str, Sequence[str]]
) -> list[AttentionRow]:
    """What `draw_attention` draws of these sentences, or else of the first of the first two languages.

    Raises:
        MexmaError: A sentence has no token.
    """
    first = (next((line for line in lines if not is_blank(line)), None) for lines in texts.values())
    chosen = sentences or list(islice(filter(None, first), 2))
    rows = sorted(attention_rows(encoder, chosen), key=lambda row: row.line)
    if not rows or any(len(row.tokens) < 3 for row in rows):
        raise MexmaError("a sentence for the picture has no token", "name others with --sentence")
    encoder.truncated = 0  # of what is measured only
    return rows


@contextmanager
def _watched(model: PreTrainedModel) -> Iterator[None]:
    model.set_attn_implementation(WATCHED)
    try:
        yield
    finally:
        model.set_attn_implementation(IMPLEMENTATION)


def _watching(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    *,
    packed_seen: dict[str, Any],
    **arguments: Any,
) -> tuple[torch.Tensor, None]:
    # Layers come in order: what is here after the forward pass is the last one's.
    packed_seen.update(query=query, key=key, scaling=scaling)
    return packed_attention(module, query, key, value, attention_mask, scaling, dropout, **arguments)


def _no_mask(*_: Any, **__: Any) -> None:
    return None


AttentionInterface.register(WATCHED, _watching)
AttentionMaskInterface.register(WATCHED, _no_mask)
