"""Where the nearest tokens of a token are, over all languages (MEXMA paper, sections 5.5 and 12, Table 9).

Token vectors are those of the last layer, without the first and the last token of a sentence (`<s>` and
`</s>`), compared by cosine. A neighbour is in one of four classes by its sentence:

    same sentence   the query's sentence
    translation     the same line in another language
    same language   another line in the query's language
    other           another line in another language

The paper's "same language" asks for the same token besides: `same token`, the part of that class that is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from mexma_cli.encoder.model.attention import run_packed
from mexma_cli.encoder.model.packed import GPU_TOKENS_PER_BATCH, TOKENS_PER_BATCH
from mexma_cli.encoder.model.packing import by_token_budget, pack
from mexma_cli.errors import MexmaError
from mexma_cli.evaluation.aligned import AlignedTexts
from mexma_cli.reporting.plot import COLOURS, PALE, new_figure, save
from mexma_cli.reporting.result import Result, describe

if TYPE_CHECKING:
    from mexma_cli.encoder.encoder import SentenceEncoder

QUERIES = "eng_Latn"
"""Language of the queries."""
CLASSES = ("other", "same language", "same sentence", "translation")
SENTENCES = 250
PER_SENTENCE = 3
NEAREST = 5
SEED = 0
DRAWN, NEAREST_DRAWN = 6, 3
"""Queries of a picture, and their neighbours in it: three as in Figures 5 and 6."""
LETTERS = 48
"""Characters of a sentence in a picture, on either side of the token."""


@dataclass(frozen=True)
class TokenBlock:
    """n tokens of one language.

    Attributes:
        vectors: float32 [n, dim], unit length, on the encoder's device.
        places: int64 [n, 3], the sentence that each is of, its place in it, from 1 (0 is `<s>`), and its id.
    """

    vectors: torch.Tensor
    places: torch.Tensor

    @property
    def lines(self) -> torch.Tensor:
        """int64 [n], the sentences."""
        return self.places[:, 0]


@torch.inference_mode()
def token_blocks(encoder: SentenceEncoder, sentences: Sequence[str]) -> Iterator[TokenBlock]:
    """The tokens of sentences, a batch at a time, the longest sentences first.

    Memory is that of one batch, whatever the number of sentences.
    """
    encoder.model.eval()
    tokens = encoder.tokenize(sentences)
    budget = TOKENS_PER_BATCH if encoder.device.type == "cpu" else GPU_TOKENS_PER_BATCH
    for rows in by_token_budget([len(ids) for ids in tokens], budget):
        batch = pack([tokens[row] for row in rows], encoder.transformer.first_position).to(encoder.device)
        states = run_packed(encoder.model, batch, encoder.backend).float()
        lengths = torch.tensor(batch.lengths, device=encoder.device)
        lines = torch.from_numpy(rows).to(encoder.device).repeat_interleave(lengths)
        starts = batch.cu_seqlens[:-1].long().repeat_interleave(lengths)
        places = torch.arange(len(lines), device=encoder.device) - starts
        words = (places > 0) & (places < (lengths - 1).repeat_interleave(lengths))
        vectors = torch.nn.functional.normalize(states[words], dim=1)
        yield TokenBlock(vectors, torch.stack([lines, places, batch.input_ids], dim=1)[words])


def pick_queries(encoder: SentenceEncoder, sentences: Sequence[str], seed: int = SEED) -> TokenBlock:
    """PER_SENTENCE random tokens of each of the first SENTENCES sentences; all of a shorter one."""
    random = np.random.default_rng(seed)
    blocks = list(token_blocks(encoder, sentences[:SENTENCES]))
    vectors = torch.cat([block.vectors for block in blocks])
    places = torch.cat([block.places for block in blocks])
    lines = places[:, 0].cpu().numpy()
    chosen: list[int] = []
    for line in range(min(SENTENCES, len(sentences))):
        of_line = np.flatnonzero(lines == line)
        chosen += sorted(random.permutation(of_line)[:PER_SENTENCE].tolist())
    rows = torch.tensor(chosen, dtype=torch.int64, device=places.device)
    return TokenBlock(vectors[rows], places[rows])


class Nearest:
    """The k nearest tokens of every query among all that were added; only these are kept.

    Attributes:
        cosines: float32 [q, k], falling; -inf where fewer than k tokens were added.
        tokens: int64 [q, k, 4], which tokens these are: language, as numbered by `add`, sentence, place, id.
        seen: How many were added.
    """

    def __init__(self, queries: TokenBlock, language: int, k: int = NEAREST) -> None:
        self.queries = queries
        self.language = language
        shape = (len(queries.lines), k)
        self.cosines = torch.full(shape, -torch.inf, device=queries.vectors.device)
        self.tokens = torch.full((*shape, 4), -1, device=queries.vectors.device)
        self.seen = 0

    def add(self, language: int, block: TokenBlock) -> None:
        """Look among more tokens; a query is not its own neighbour."""
        self.seen += len(block.lines)
        cosines = self.queries.vectors @ block.vectors.T
        if language == self.language:
            cosines[(self.queries.places[:, None] == block.places).all(dim=2)] = -torch.inf
        best, columns = cosines.topk(min(self.cosines.shape[1], cosines.shape[1]), dim=1)
        both = torch.cat([self.cosines, best], dim=1)
        self.cosines, kept = both.topk(self.cosines.shape[1], dim=1)
        found = torch.cat([torch.full_like(columns, language)[..., None], block.places[columns]], dim=2)
        self.tokens = torch.cat([self.tokens, found], dim=1).take_along_dim(kept[..., None], dim=1)

    def shares(self, k: int) -> dict[str, float]:
        """Percent of the k nearest of all queries in each of CLASSES, and in `same token`."""
        there = torch.isfinite(self.cosines[:, :k])
        same_language = self.tokens[:, :k, 0] == self.language
        same_line = self.tokens[:, :k, 1] == self.queries.lines[:, None]
        same_token = self.tokens[:, :k, 3] == self.queries.places[:, 2:]
        parts = (
            ~same_language & ~same_line,
            same_language & ~same_line,
            same_language & same_line,
            ~same_language & same_line,
            same_language & ~same_line & same_token,
        )
        total = max(1, int(there.sum()))
        names = (*CLASSES, "same token")
        return {
            name: 100 * int((part & there).sum()) / total for name, part in zip(names, parts, strict=True)
        }


def find_nearest(encoder: SentenceEncoder, data: AlignedTexts, on_language: Callable[[], object]) -> Nearest:
    """Look for the tokens nearest to those of the target, in it and in all languages; `on_language` is called
    after every one. Refused if the first sentences of the target have no token."""
    nearest = Nearest(pick_queries(encoder, data.lines), 0)
    if not len(nearest.queries.lines):
        path = data.source.files[data.target]
        raise MexmaError(f"{path}: no token to look for in its first {SENTENCES} sentences")
    encoder.truncated = 0  # the sentences of the queries come again
    for number, lines in enumerate([data.lines, *data.texts.values()]):
        for block in token_blocks(encoder, lines):
            nearest.add(number, block)
        on_language()
    return nearest


def tokens_result(encoder: SentenceEncoder, data: AlignedTexts, nearest: Nearest) -> Result:
    """Whose tokens `find_nearest` found: percent."""
    counts = {"queries": len(nearest.queries.lines), "tokens": nearest.seen}
    rows = [{"nearest": f"top-{k}", **counts, **nearest.shares(k)} for k in (1, NEAREST)]
    settings = data.settings() | {"k": NEAREST}
    benchmark = "tokens" if data.published == "81" else None
    return Result("tokens", describe(encoder), settings, nearest.shares(NEAREST), rows, benchmark)


def draw_nearest(path: Path, encoder: SentenceEncoder, data: AlignedTexts, nearest: Nearest) -> None:
    """Draw the first DRAWN queries, and the tokens nearest to each, in their sentences (Figures 2 to 6), into
    a .png, .svg or .pdf that is written whole."""
    texts = {data.target: data.lines, **data.texts}
    count = min(DRAWN, len(nearest.queries.lines))
    figure = new_figure(11.0, 0.6 + 0.27 * (NEAREST_DRAWN + 2) * count)
    axes = figure.add_subplot()
    axes.set_axis_off()
    line = 0
    for query in range(count):
        rows = [("query", [0, *nearest.queries.places[query].tolist()], COLOURS[0], COLOURS[2])]
        for cosine, token in zip(nearest.cosines[query], nearest.tokens[query, :NEAREST_DRAWN], strict=False):
            if torch.isfinite(cosine):
                rows.append((f"{cosine:.2f}", token.tolist(), COLOURS[1], COLOURS[3]))
        for what, (language, sentence, place, _), ink, frame in rows:
            code = list(texts)[language]
            before, token_text, after = _around(encoder, texts[code][sentence], place)
            told = f"{what}  {code}, line {sentence + 1}"
            axes.text(0.0, -line, told, fontsize=8, va="baseline", parse_math=False)
            box = {"boxstyle": "round,pad=0.2", "facecolor": "none", "edgecolor": frame}
            middle = axes.text(
                0.56, -line, token_text, fontsize=9, color=ink, ha="center", va="baseline", bbox=box,
                parse_math=False,
            )  # fmt: skip
            for beside, corner, side, gap in ((before, 0, "right", -5), (after, 1, "left", 5)):
                axes.annotate(
                    beside, (corner, 0), (gap, 0), xycoords=middle, textcoords="offset points", fontsize=9,
                    ha=side, va="bottom", parse_math=False, annotation_clip=False,
                )  # fmt: skip
            line += 1
        axes.axhline(-line + 0.2, color=PALE, linewidth=0.7)
        line += 1
    axes.set_xlim(0, 1)
    axes.set_ylim(-line + 1, 1)
    title = f"{encoder.name}: tokens, and those nearest to them by cosine"
    figure.suptitle(title, fontsize=11, parse_math=False)
    save(figure, path)


def _around(encoder: SentenceEncoder, sentence: str, place: int) -> tuple[str, str, str]:
    """The text before a token, the token, and the text behind it."""
    ids = encoder.tokenize([sentence])[0].tolist()
    decode = encoder.tokenizer.decode
    before, until, whole = decode(ids[1:place]), decode(ids[1 : place + 1]), decode(ids[1:-1])
    after = whole[len(until) :].strip()
    shown = ("…" + before[-LETTERS:]) if len(before) > LETTERS else before
    return shown.strip(), until[len(before) :].strip(), after[:LETTERS] + "…" * (len(after) > LETTERS)
