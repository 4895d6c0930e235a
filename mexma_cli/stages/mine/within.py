"""Pairs within paired documents, in texts of any size: documents are brought together on disk."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from mexma_cli.classifier.precision import USUAL, Errors
from mexma_cli.knn.sides import SearchSide
from mexma_cli.mining.candidates import PAIR, Candidates
from mexma_cli.mining.lists import Lists, Sides, slices, take_part
from mexma_cli.mining.margin import margin, mean_of
from mexma_cli.mining.match import taken_of
from mexma_cli.mining.restricted import bytes_to_compare, restricted_search
from mexma_cli.mining.retrieval import candidates_of, retrieval_of
from mexma_cli.settings.stages import MineSettings
from mexma_cli.stages.knn.row_filter import RowCounts, have_direction, rows_and_twins
from mexma_cli.stages.mine.documents import DocumentPairs
from mexma_cli.store.embeddings import EmbeddingStore, StorePair
from mexma_cli.store.spool import GATHERED, Spool, Table, bytes_to_sort, gathered, repeats, scattered

_TOGETHER = 8 << 20  # bytes of vectors and neighbours that are in work, on a side; or those of one document
_NEIGHBOUR = 100  # bytes of one, with what is made of it
_KEYS = ("documents", "side", "twin", "row")
_LINE = np.dtype([*((name, "<i8") for name in _KEYS), ("first", "?"), ("mean", "<f4")])
_FOUND = np.dtype([("backward", "?"), ("row", "<i8"), *PAIR.descr])


class Matched(NamedTuple):
    """Pairs, best first; how many rows of both sides take part; within documents, for each row the row with
    the same line whose neighbours stand for its own, int64 [rows] of both sides, memory-mapped; and the
    errors of probabilities."""

    pairs: Candidates
    counts: tuple[RowCounts, RowCounts]
    twins: tuple[np.ndarray, np.ndarray] | None = None
    errors: Errors = USUAL


def match_within(
    stores: StorePair, sides: Sides, documents: DocumentPairs, settings: MineSettings
) -> Matched:
    """Take pairs as `match` does, of rows whose documents are paired; a line counts once in each document.

    Takes the memory of `bytes_within`, or of the largest two documents, and in temporary files about 100
    bytes for each row and each pair that its document is in. Refused: a full disk.
    """
    table, same = Table(_LINE, *_KEYS, together=1), []
    empty = [np.zeros(store.rows, bool) for store in stores]
    for side, store in enumerate(stores):
        lines = _by_document(sides[side], store, documents, side, table, empty[side])
        same.append(scattered(store.rows, np.int64, -1, lines))
    k = candidates_of(settings)
    most = max(1, _TOGETHER // (4 * stores[0].dim + _NEIGHBOUR * k))
    best = Table(_FOUND, "backward", "row", "-scores", "-cosines", "source", "target", together=2)
    repeated, unusable = np.zeros(2, np.int64), np.zeros(2, np.int64)
    for lines in table.sorted():
        again = np.append(repeats(lines, *_KEYS[:-1])[1:], False)  # of equal lines the last one stays
        without = ~again & np.isnan(lines["mean"])
        repeated += np.bincount(lines["side"][again & lines["first"]], minlength=2)
        unusable += np.bincount(lines["side"][without & lines["first"]], minlength=2)
        for batch in _batches(lines[~again & ~without], most):
            _search(stores, batch, settings, best)
    pairs = taken_of(_best_of_rows(best, k), settings, (stores[0].rows, stores[1].rows))
    counts = [
        RowCounts(store.rows, *map(int, numbers))
        for store, *numbers in zip(stores, repeated, map(np.sum, empty), unusable, strict=True)
    ]
    return Matched(pairs, (counts[0], counts[1]), (same[0], same[1]))


def _best_of_rows(found: Table, k: int) -> Iterator[Candidates]:
    """The k best of each row: one whose document is in several pairs has found more."""
    for pairs in found.sorted():
        places = np.arange(len(pairs))
        firsts = np.maximum.accumulate(np.where(repeats(pairs, "backward", "row"), 0, places))
        chosen = pairs[places - firsts < k]
        yield Candidates(*(chosen[name] for name in PAIR.names or ()))


def bytes_within(rows: int, dim: int, settings: MineSettings) -> int:
    """Bytes of memory that `match_within` takes for so many rows of both sides, before its pairs are matched:
    which rows are empty, what is looked up, the lines and the pairs that are sorted, vectors and neighbours,
    and what is made of them."""
    k = candidates_of(settings)
    sorting = bytes_to_sort(rows, _LINE) + bytes_to_sort(k * rows, _FOUND)
    searching = 4 * min(_TOGETHER, (4 * dim + _NEIGHBOUR * k) * rows)
    return rows + 4 * min(GATHERED, rows) + sorting + searching + bytes_to_compare(rows)


def _means(side: Lists, store: EmbeddingStore) -> np.ndarray:
    """Mean cosine of every row's neighbours, float32 [rows], memory-mapped; nan: it does not take part."""
    found = Spool(np.float32)
    for part in slices(side.count):
        cosines, ids = side.at(np.arange(part.start, part.stop))
        found.write(np.where(take_part(ids), mean_of(cosines, ids), np.float32(np.nan)))
    means = found.array()
    if np.isnan(means).all():  # the other side has no line that takes part
        return np.where(have_direction(store), np.float32(0), np.float32(np.nan))
    return means


def _by_document(
    lists: Lists, store: EmbeddingStore, documents: DocumentPairs, side: int, table: Table, empty: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """`rows_and_twins` of a store, whose lines go into a table, once for each pair their document is in."""
    of_line = (documents.source, documents.target)[side]
    keys, means = documents.keys[side], _means(lists, store)
    for rows, twin in rows_and_twins(store, empty):
        pairs, at = keys.at(gathered(of_line, rows))
        first, mean = np.diff(at, prepend=-1) > 0, gathered(means, twin)[at]
        table.append(documents=pairs, side=side, twin=twin[at], row=rows[at], first=first, mean=mean)
        yield rows, twin


Document = tuple[np.ndarray, np.ndarray]
"""The lines of source and target of two documents that are paired, by row."""


def _batches(lines: np.ndarray, most: int) -> Iterator[list[Document]]:
    """The documents of both sides, from lines sorted by `_KEYS`; so many lines a side at a time, if a single
    document does not have more."""
    ends = np.append(np.flatnonzero(~repeats(lines, _KEYS[0]))[1:], len(lines))
    targets, start = np.append(0, np.cumsum(lines["side"], dtype=np.int64)), 0
    batch, held = list[Document](), np.zeros(2, np.int64)
    for end in ends.tolist():
        border = end - int(targets[end] - targets[start])
        if start < border < end:
            own, other = (part[np.argsort(part["row"])] for part in (lines[start:border], lines[border:end]))
            more = np.array([len(own), len(other)])
            if batch and (held + more > most).any():
                yield batch
                batch, held = [], np.zeros(2, np.int64)
            batch.append((own, other))
            held += more
        start = end
    if batch:
        yield batch


def _search(stores: StorePair, batch: list[Document], settings: MineSettings, best: Table) -> None:
    """Put the best pairs of each row in some documents into a table of `_FOUND`."""
    rows, means, vectors, spans = [], [], [], []
    for side, store in enumerate(stores):
        reader, parts = SearchSide(store, None), [document[side] for document in batch]
        blocks = []
        for part in parts:
            reader.ids = part["row"]
            blocks.append(reader.raw(0, len(part)))
        every = np.concatenate(parts)
        rows.append(every["row"])
        means.append(every["mean"])
        vectors.append(np.concatenate(blocks))
        ends = np.cumsum([len(part) for part in parts]).tolist()
        spans.append([np.arange(end - len(part), end) for part, end in zip(parts, ends, strict=True)])
    documents = zip(spans[0], spans[1], strict=True)
    near = restricted_search(vectors[0], vectors[1], documents, (means[0], means[1]), settings)
    lists = (near.forward_scores, near.forward_ids), (near.backward_scores, near.backward_ids)
    for backward in retrieval_of(settings).sides:
        cosines, ids = lists[backward]
        own, place = np.nonzero(ids >= 0)
        other, cosines = ids[own, place], cosines[own, place]
        scores = margin(cosines, means[backward][own], means[1 - backward][other], settings.margin)
        pair = rows[backward][own], rows[1 - backward][other]
        source, target = pair[::-1] if backward else pair
        columns = {"scores": scores, "source": source, "target": target, "cosines": cosines}
        best.append(backward=backward, row=pair[0], **columns)
