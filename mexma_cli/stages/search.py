"""The nearest sentences of a store: for every row of another store, or for a sentence that was typed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mexma_cli.errors import MexmaError
from mexma_cli.formats.bitext import DEFAULT, FoundPair
from mexma_cli.formats.csv import row_lines
from mexma_cli.knn.exact import knn
from mexma_cli.knn.neighbours import Neighbours
from mexma_cli.knn.sides import dots
from mexma_cli.languages import UNSTATED
from mexma_cli.mining.margin import margin as margin_of
from mexma_cli.mining.margin import means
from mexma_cli.settings.stages import EncoderChoice, ScoreSettings
from mexma_cli.stages.embed.inputs import load_encoder_of
from mexma_cli.stages.knn.knn import fill_repeated
from mexma_cli.stages.knn.row_filter import RowCounts, filter_rows, have_direction
from mexma_cli.stages.mine.documents import check_lines, read_document_ids, tell_if_older
from mexma_cli.stages.mine.texts import KeptTexts
from mexma_cli.stages.score import unit_vectors
from mexma_cli.store.embeddings import EmbeddingStore, check_comparable
from mexma_cli.text.amounts import shortest
from mexma_cli.text.lines import is_blank
from mexma_cli.text.normalise import cleaner
from mexma_cli.text.writing import Chunk

_BLOCK = 1 << 14
if TYPE_CHECKING:
    from mexma_cli.encoder.encoder import SentenceEncoder

Place = Callable[[int], tuple[int, str]]
"""From a row of the target to its line, from 1, and its document."""


@dataclass(frozen=True)
class Hits:
    """The best rows of the target for every query, best first.

    `scores` float32 and `rows` int64 [queries, n] are nan and -1 for a query without a hit: it is empty, or
    its vector has no direction.
    """

    scores: np.ndarray
    rows: np.ndarray
    without: int
    """Queries without a hit."""
    target: RowCounts


def find_hits(
    queries: EmbeddingStore,
    target: EmbeddingStore,
    settings: ScoreSettings = ScoreSettings(),
    *,
    top: int = 1,
    on_progress: Callable[[int, int], object] | None = None,
) -> Hits:
    """Find the best `top` different sentences of the target for every query; stores of different encoders or
    dimensions, or damaged ones, are refused.

    They are the best by margin of the max(k, top) nearest; with top 1 that is what LASER's search mode finds.
    The neighbourhood of a query is k different sentences of the target, and the other way round.
    """
    check_comparable(queries, target, any_prompts=True)
    keep_queries, _ = filter_rows(queries)
    keep_target, counts = filter_rows(target)
    width = max(settings.k, top)
    found = knn(queries, target, width, keep_x=keep_queries, keep_y=keep_target, on_progress=on_progress)
    filled = np.fromiter((not is_blank(line) for line in queries.sentences()), dtype=bool, count=queries.rows)
    repeated = filled & have_direction(queries) & ~keep_queries
    fill_repeated(found.forward_scores, found.forward_ids, queries, target, repeated, keep_target, width)
    scores, rows = _best(found, top, settings)
    for store in (queries, target):
        store.check_unchanged()
    return Hits(scores, rows, int((rows[:, :1] < 0).sum()) if rows.shape[1] else queries.rows, counts)


def found_pairs(
    queries: EmbeddingStore,
    target: EmbeddingStore,
    hits: Hits,
    place: Place,
) -> Iterator[FoundPair]:
    """The hits of each query, best first, in the order of the queries; a query without one has a pair with
    the score nan and no sentence."""
    texts = KeptTexts(target.sentences(), hits.rows[hits.rows >= 0])
    sentences = queries.sentences()
    for start in range(0, queries.rows, _BLOCK):
        rows = hits.rows[start : start + _BLOCK]
        found = iter(texts.take(rows[rows >= 0]))
        scores = hits.scores[start : start + _BLOCK]
        for query, values, ids in zip(islice(sentences, _BLOCK), scores, rows.tolist(), strict=True):
            number = sum(row >= 0 for row in ids)
            best = zip(shortest(values), islice(found, number), ids, strict=False)
            for rank, (score, text, row) in enumerate(best, 1):
                yield FoundPair(score, query, text, rank, *place(row))
            if not number:
                yield FoundPair(float("nan"), query, "", 0, 0, "")


def lines_of(found: Iterable[FoundPair], format: str = DEFAULT) -> Iterator[Chunk]:
    """Yield the hits as lines of one of `formats.csv.ROWS`, for `text.writing.write_chunks`."""
    yield from row_lines(found, ("score", "query", "sentence", *FoundPair._fields[3:]), format)


def places(target: EmbeddingStore, documents: Path | None = None) -> Place:
    """Where the rows of the target stand, by a file with the document id of every line; without it, a
    document is the path of a text that was embedded."""
    if documents is None:
        return target.place
    of_line, names = read_document_ids(documents)
    check_lines(documents, len(of_line), target.rows, target.manifest.source.path)
    tell_if_older(target, documents)
    return lambda row: (target.place(row)[0], names[of_line[row]])


def nearest_to_sentence(
    query: str, store: EmbeddingStore, encoder: EncoderChoice | SentenceEncoder, top: int, place: Place
) -> list[FoundPair]:
    """The `top` different sentences nearest to a line that was typed, which is cleaned if the store's
    sentences were, with their cosines, best first; the encoder is by default the store's own."""
    if is_blank(query):
        raise MexmaError("the query is empty")
    query = " ".join(query.splitlines())
    cleaned = cleaner(UNSTATED)(query) if store.manifest.clean else query
    (vector,) = load_encoder_of([store], encoder, "the query").embed([cleaned])
    found = nearest_sentences(store, vector, top)
    if not found:
        raise MexmaError(f"{store.label} has no sentence with a usable vector")
    return [
        FoundPair(score, query, text, rank, *place(row)) for rank, (score, text, row) in enumerate(found, 1)
    ]


def nearest_sentences(store: EmbeddingStore, vector: np.ndarray, top: int) -> list[tuple[float, str, int]]:
    """The cosines, texts and rows of the `top` different sentences nearest to a vector, float32 [dim], best
    first; of equal sentences the last one, as `filter_rows` has it."""
    cosines = np.empty(store.rows, dtype=np.float32)
    query, done = unit_vectors(vector[None]), 0
    for block in store.blocks(_BLOCK):
        rows = np.arange(len(block))
        cosines[done : done + len(block)] = dots(unit_vectors(block), query, rows, np.zeros_like(rows))
        done += len(block)
    cosines[np.isnan(cosines)] = -np.inf
    looked_at = min(2 * top, store.rows)  # more where lines are empty or equal
    while looked_at:
        least = np.partition(cosines, store.rows - looked_at)[store.rows - looked_at]
        rows = np.flatnonzero((cosines >= least) & (cosines > -np.inf))
        rows = rows[np.lexsort((-rows, -cosines[rows]))]
        best: dict[str, tuple[float, str, int]] = {}
        for row, text in zip(rows.tolist(), KeptTexts(store.sentences(), rows).take(rows), strict=True):
            if not is_blank(text):
                best.setdefault(text, (next(shortest([cosines[row]])), text, row))
        if len(best) >= top or looked_at == store.rows:
            return list(islice(best.values(), top))
        looked_at = min(4 * looked_at, store.rows)
    return []


def _best(found: Neighbours, top: int, settings: ScoreSettings) -> tuple[np.ndarray, np.ndarray]:
    """(scores, rows) [queries, top]; of equal scores the nearer comes first, then the lower row."""
    ids = found.forward_ids
    top = min(top, ids.shape[1])
    own_mean, other_mean = means(found.first(settings.k))
    scores = np.full((len(ids), top), np.nan, dtype=np.float32)
    rows = np.full((len(ids), top), -1, dtype=np.int64)
    if not top:
        return scores, rows
    with_hits = np.flatnonzero(ids[:, 0] >= 0)
    for start in range(0, len(with_hits), _BLOCK):
        chosen = with_hits[start : start + _BLOCK]
        background = own_mean[chosen, None], other_mean[ids[chosen]]
        values = margin_of(found.forward_scores[chosen], *background, settings.margin)
        order = np.argsort(-values, axis=1, kind="stable")[:, :top]
        scores[chosen] = np.take_along_axis(values, order, axis=1)
        rows[chosen] = np.take_along_axis(ids[chosen], order, axis=1)
    return scores, rows
