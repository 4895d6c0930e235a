"""Where the first token looks: entropy of the last layer's attention (MEXMA paper, sections 5.6 and 13).

Packed attention returns no weights. Here the last layer's queries and keys are caught on their way, and the
row of each sentence's first token is computed from them: softmax(q k / sqrt(d)).
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from transformers import AttentionInterface, PreTrainedModel

from mexma_cli.encoder.model.attention import IMPLEMENTATION, packed_attention, run_packed
from mexma_cli.encoder.model.packed import TOKENS_PER_BATCH
from mexma_cli.encoder.model.packing import PackedBatch, by_token_budget, pack
from mexma_cli.errors import MexmaError
from mexma_cli.evaluation.aligned import AlignedFolder, language_list
from mexma_cli.reporting.plot import COLOURS, new_figure, save, tidy
from mexma_cli.reporting.result import Result, describe
from mexma_cli.text.lines import is_blank

if TYPE_CHECKING:
    from mexma_cli.encoder.encoder import SentenceEncoder

log = logging.getLogger(__name__)


def attention_rows(encoder: SentenceEncoder, sentences: Sequence[str]) -> Iterator[AttentionRow]:
    """The rows of all sentences, the longest first; memory is that of one batch."""
    encoder.check_packs("a look at its attention")
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
    with _watched() as seen:
        run_packed(model, batch, "bucketed")
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


def mean_entropies(rows: Iterator[AttentionRow]) -> dict[str, float]:
    """Over the sentences that have tokens besides the first and the last: how many, and the mean entropies in
    nats, of each head and of the heads' mean distribution, with and without these two; {} for no sentence."""
    found = []
    for row in rows:
        if len(row.tokens) > 2:
            every, mean = (row.weights, row.words), (row.weights.mean(axis=0), row.words.mean(axis=0))
            found.append([entropy(part).mean() for part in (*every, *mean)])
    if not found:
        return {}
    names = ("entropy", "without <s> </s>", "of mean", "of mean without <s> </s>")
    return {"sentences": len(found), **dict(zip(names, np.mean(found, axis=0).tolist(), strict=True))}


def evaluate(
    encoder: SentenceEncoder,
    source: AlignedFolder,
    languages: str | None,
    texts: Mapping[str, Sequence[str]],
    on_language: Callable[[], object],
) -> Result:
    """Mean entropies of every language, as it was asked for, from the sentences by code, and their means over
    languages; refused if no sentence has a token. `on_language` is called after every language."""
    rows: list[dict[str, Any]] = []
    for language, lines in texts.items():
        found = mean_entropies(attention_rows(encoder, lines))
        on_language()
        if found:
            rows.append({"language": language} | found)
        else:
            log.warning("%s is left out: none of its sentences has a token", language)
    if not rows:
        raise MexmaError(f"{source.folder}: no sentence has a token")
    measured = [key for key in rows[0] if key not in ("language", "sentences")]
    scores = {key: sum(row[key] for row in rows) / len(rows) for key in measured}
    settings = source.settings() | {"languages": languages or "all", "layer": "last", "unit": "nats"}
    whole = languages == "o" and texts.keys() >= language_list("o").keys()  # the languages of section 5.6
    is_flores = source.is_flores and source.split == "devtest"
    benchmark = "attention" if whole and is_flores else None
    return Result("attention", describe(encoder), settings, scores, rows, benchmark)


def rows_to_draw(
    encoder: SentenceEncoder, sentences: Sequence[str], texts: Mapping[str, Sequence[str]]
) -> list[AttentionRow]:
    """The rows of these sentences, or else of the first ones of the first two languages, for a picture; each
    must have a token."""
    first = (next((line for line in lines if not is_blank(line)), None) for lines in texts.values())
    chosen = sentences or list(islice(filter(None, first), 2))
    rows = sorted(attention_rows(encoder, chosen), key=lambda row: row.line)
    if not rows or any(len(row.tokens) < 3 for row in rows):
        raise MexmaError("a sentence for the picture has no token", "name others with --sentence")
    encoder.truncated = 0  # it counts what is measured, not what is drawn
    return rows


@contextmanager
def _watched() -> Iterator[dict[str, Any]]:
    """The queries, the keys and the scale of the layer that attended last, as packed attention got them."""
    seen: dict[str, Any] = {}

    def watching(module: Any, query: Any, key: Any, value: Any, mask: Any, **how: Any) -> Any:
        seen.update(query=query, key=key, scaling=how.get("scaling"))
        return packed_attention(module, query, key, value, mask, **how)

    AttentionInterface.register(IMPLEMENTATION, watching)
    try:
        yield seen
    finally:
        AttentionInterface.register(IMPLEMENTATION, packed_attention)


INCHES_PER_TOKEN = 0.32


@dataclass(frozen=True)
class AttentionRow:
    """The attention of a sentence's first token.

    Attributes:
        line: Which sentence.
        tokens: Its n tokens, as the tokeniser writes them.
        weights: float32 [heads, n]; the rows sum to 1.
    """

    line: int
    tokens: tuple[str, ...]
    weights: np.ndarray

    @property
    def words(self) -> np.ndarray:
        """The weights of words: `weights` without the first and the last token, summing to 1 again, [heads, n
        - 2]."""
        inside = self.weights[:, 1:-1]
        return inside / inside.sum(axis=1, keepdims=True)


def draw_attention(path: Path, rows: Sequence[AttentionRow], title: str) -> None:
    """Draw each sentence as bars (words alone, mean of the heads: Figures 7-10), and below them all heads and
    all tokens (Figure 11).

    Args:
        path: .png, .svg or .pdf; written whole.
        rows: At least one, each with a token besides the first and the last.
    """
    longest = max(len(row.tokens) for row in rows)
    width = max(7.0, 1.5 + INCHES_PER_TOKEN * longest)
    figure = new_figure(width, 4.6 * len(rows) + 0.4)
    figure.suptitle(title, parse_math=False)
    axes = figure.subplots(2 * len(rows), 1, squeeze=False)[:, 0]
    highest = max(float(row.words.mean(axis=0).max()) for row in rows)
    for number, row in enumerate(rows):
        bars, heads = axes[2 * number], axes[2 * number + 1]
        names = [token.replace("▁", "") or "▁" for token in row.tokens]
        bars.bar(range(1, len(names) - 1), row.words.mean(axis=0), color=COLOURS[0])
        bars.set_ylim(0, 1.05 * highest)  # one scale for all sentences
        bars.set_ylabel("share of attention", fontsize=9)
        bars.set_title("words alone, mean of the heads", loc="left", fontsize=10)
        shown = heads.imshow(row.weights, aspect="auto", cmap="viridis", vmin=0.0, interpolation="nearest")
        heads.set_ylabel("head", fontsize=9)
        heads.set_title("all tokens, every head", loc="left", fontsize=10)
        heads.yaxis.get_major_locator().set_params(integer=True)
        scale = figure.colorbar(shown, ax=heads, fraction=0.03, pad=0.01)
        scale.set_label("share of attention", fontsize=9)
        scale.ax.tick_params(labelsize=8)
        for one, places in ((bars, range(1, len(names) - 1)), (heads, range(len(names)))):
            one.set_xlim(-0.5, len(names) - 0.5)
            shown_names = [names[place] for place in places]  # `$$` is a token, not the start of a formula
            one.set_xticks(list(places), shown_names, rotation=60, ha="right", parse_math=False)
            tidy(one)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        save(figure, path)
    if any("missing from font" in str(warning.message) for warning in caught):
        log.warning("%s has boxes for characters that no installed font of matplotlib has", path)
