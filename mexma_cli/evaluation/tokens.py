"""Where the nearest tokens of a token are, over all languages (MEXMA paper, section 5.5 and Table 9).

Token vectors are those of the last layer, without the first and the last token of a sentence (`<s>` and
`</s>`), compared by cosine. A neighbour is in one of four classes by its sentence:

    same sentence   the query's sentence
    translation     the same line in another language
    same language   another line in the query's language
    other           another line in another language
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from mexma_cli.encoder.model.attention import run_packed
from mexma_cli.encoder.model.packed import GPU_TOKENS_PER_BATCH, TOKENS_PER_BATCH
from mexma_cli.encoder.model.packing import by_token_budget, pack
from mexma_cli.errors import MexmaError
from mexma_cli.evaluation.aligned import AlignedTexts
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


@dataclass(frozen=True)
class TokenBlock:
    """n tokens of one language.

    Attributes:
        vectors: float32 [n, dim], unit length, on the encoder's device.
        places: int64 [n, 2], the sentence that each is of, and its place in it, from 1 (0 is `<s>`).
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
        yield TokenBlock(vectors, torch.stack([lines[words], places[words]], dim=1))


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
        tokens: int64 [q, k, 3], which tokens these are: language, as numbered by `add`, sentence and place.
    """

    def __init__(self, queries: TokenBlock, language: int, k: int = NEAREST) -> None:
        self.queries = queries
        self.language = language
        shape = (len(queries.lines), k)
        self.cosines = torch.full(shape, -torch.inf, device=queries.vectors.device)
        self.tokens = torch.full((*shape, 3), -1, device=queries.vectors.device)

    def add(self, language: int, block: TokenBlock) -> None:
        """Look among more tokens; a query is not its own neighbour."""
        cosines = self.queries.vectors @ block.vectors.T
        if language == self.language:
            cosines[(self.queries.places[:, None] == block.places).all(dim=2)] = -torch.inf
        best, columns = cosines.topk(min(self.cosines.shape[1], cosines.shape[1]), dim=1)
        both = torch.cat([self.cosines, best], dim=1)
        self.cosines, kept = both.topk(self.cosines.shape[1], dim=1)
        found = torch.cat([torch.full_like(columns, language)[..., None], block.places[columns]], dim=2)
        self.tokens = torch.cat([self.tokens, found], dim=1).take_along_dim(kept[..., None], dim=1)

    def shares(self, k: int) -> dict[str, float]:
        """Percent of the k nearest of all queries in each of CLASSES."""
        there = torch.isfinite(self.cosines[:, :k])
        same_language = self.tokens[:, :k, 0] == self.language
        same_line = self.tokens[:, :k, 1] == self.queries.lines[:, None]
        parts = (
            ~same_language & ~same_line,
            same_language & ~same_line,
            same_language & same_line,
            ~same_language & same_line,
        )
        total = max(1, int(there.sum()))
        return {
            name: 100 * int((part & there).sum()) / total for name, part in zip(CLASSES, parts, strict=True)
        }


def evaluate(encoder: SentenceEncoder, data: AlignedTexts, on_language: Callable[[], object]) -> Result:
    """Look for the tokens nearest to those of the target, and say whose they are: percent.

    Args:
        on_language: Called after every language.

    Raises:
        MexmaError: The first sentences of the target have no token.
    """
    nearest = Nearest(pick_queries(encoder, data.lines), 0)
    if not len(nearest.queries.lines):
        path = data.source.files[data.target]
        raise MexmaError(f"{path}: no token to look for in its first {SENTENCES} sentences")
    encoder.truncated = 0  # the sentences of the queries come again
    tokens = 0
    for number, lines in enumerate([data.lines, *data.texts.values()]):
        for block in token_blocks(encoder, lines):
            nearest.add(number, block)
            tokens += len(block.lines)
        on_language()
    counts = {"queries": len(nearest.queries.lines), "tokens": tokens}
    rows = [{"nearest": f"top-{k}", **counts, **nearest.shares(k)} for k in (1, NEAREST)]
    settings = data.settings() | {"k": NEAREST}
    benchmark = "tokens" if data.published == "81" else None
    return Result("tokens", describe(encoder), settings, nearest.shares(NEAREST), rows, benchmark)
