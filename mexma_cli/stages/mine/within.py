"""Pairs of documents of the same id, in texts of any size: documents are brought together on disk."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mexma_cli.knn.sides import Side
from mexma_cli.mining.candidates import Candidates, SortedPairs
from mexma_cli.mining.lists import Lists, Sides, slices, take_part
from mexma_cli.mining.margin import mean_of
from mexma_cli.mining.match import best_of_each, taken_of
from mexma_cli.mining.restricted import restricted_search
from mexma_cli.stages.knn.row_filter import RowCounts, digests_of, twins
from mexma_cli.stages.mine.documents import DocumentFiles, check_lines, ids_of_lines, none_in_common
from mexma_cli.store.embeddings import EmbeddingStore, StorePair
from mexma_cli.store.spool import Spool, Table, bytes_to_sort, gathered, repeats
from mexma_cli.text.lines import is_blank

_LINES = 1 << 16  # read at a time
_VECTORS = 64 << 20  # bytes of those that are searched together, on a side; or those of one document
_KEYS = ("document", "document_low", "side", "line", "line_low", "row")
_DIGESTS = ("document", "document_low", "line", "line_low")
_LINE = np.dtype([*((name, "<u8") for name in _DIGESTS), ("side", "<i1"), ("row", "<i8"), ("mean", "<f4")])


class Within(NamedTuple):
    """Pairs within documents; how many rows of both sides take part there; and for each row the one with an
    equal line whose neighbours are its own, int64 [rows] of both sides, memory-mapped."""

    pairs: Candidates
    counts: tuple[RowCounts, RowCounts]
    twins: tuple[np.ndarray, np.ndarray]


def match_within(
    stores: StorePair,
    sides: Sides,
    documents: DocumentFiles,
    kind: str,
    retrieval: str,
    threshold: float | None,
) -> Within:
    """Mine as `mine` does with `DocumentPairs` of equal ids, to the same bytes, but for retrieval `all`.

    Takes the memory of `bytes_within`, or of the largest two documents of an id, and in temporary files about
    100 bytes a row. Refused: a line without an id, no id in common, another number of lines than the texts
    have; a full disk.
    """
    table, same, empty = Table(_LINE, *_KEYS, together=2), [], []
    for side, (store, path) in enumerate(zip(stores, documents[:2], strict=True)):
        same.append(twins(store))
        means = _background(sides[side], same[-1])
        empty.append(_by_document(store, path, means, side, table))
    every, paired, repeated, unusable = SortedPairs(), 0, np.zeros(2, np.int64), np.zeros(2, np.int64)
    for lines in table.sorted():
        again = np.append(repeats(lines, *_KEYS[:-1])[1:], False)  # of equal lines the last one stays
        without = ~again & np.isnan(lines["mean"])
        repeated += np.bincount(lines["side"][again], minlength=2)
        unusable += np.bincount(lines["side"][without], minlength=2)
        paired += sum(1 for _ in _documents(lines))
        for found in _searched(stores, lines[~again & ~without], kind):
            for direction, pairs in zip(("forward", "backward"), found, strict=True):
                if retrieval not in {"forward", "backward"} - {direction}:
                    every.add(pairs)
    if not paired:
        raise none_in_common(documents)
    pairs = taken_of(every, retrieval, (stores[0].rows, stores[1].rows)).cut(retrieval, threshold)
    counts = [
        RowCounts(store.rows, *numbers)
        for store, *numbers in zip(stores, repeated.tolist(), empty, unusable.tolist(), strict=True)
    ]
    return Within(pairs, (counts[0], counts[1]), (same[0], same[1]))


def bytes_within(rows: int, dim: int) -> int:
    """Bytes of memory that `match_within` takes for so many rows of both sides, before its pairs are matched:
    which rows are empty, the lines that are sorted, vectors and what is made of them."""
    return max(rows, bytes_to_sort(rows, _LINE)) + 4 * min(_VECTORS, 4 * dim * rows)


def _background(side: Lists, twin: np.ndarray) -> np.ndarray:
    """Mean cosine of the neighbours of every row's twin, float32 [rows], memory-mapped; nan: it has none."""
    own, found = Spool(np.float32), Spool(np.float32)
    for part in slices(side.count):
        cosines, ids = side.at(np.arange(part.start, part.stop))
        own.write(np.where(take_part(ids), mean_of(cosines, ids), np.float32(np.nan)))
    means = own.array()
    for part in slices(side.count):
        found.write(gathered(means, np.array(twin[part])))
    return found.array()


def _by_document(store: EmbeddingStore, path: Path, means: np.ndarray, side: int, table: Table) -> int:
    """Put the lines of a store that are not empty into a table of documents; how many are empty."""
    sentences, ids, empty = store.sentences(), ids_of_lines(path), 0
    for start in range(0, store.rows, _LINES):
        lines = list(islice(sentences, _LINES))
        names = list(islice(ids, len(lines)))
        if len(names) < len(lines):
            check_lines(path, start + len(names), store.rows, str(store.path))
        filled = np.flatnonzero([not is_blank(line) for line in lines])
        digests = np.hstack([digests_of(names), digests_of(lines)])[filled]
        columns = dict(zip(_DIGESTS, digests.T, strict=True))
        table.append(**columns, side=side, row=start + filled, mean=means[start + filled])
        empty += len(lines) - len(filled)
    check_lines(path, store.rows + sum(1 for _ in ids), store.rows, str(store.path))
    return empty


def _documents(lines: np.ndarray) -> Iterator[tuple[slice, slice]]:
    """Where the lines of source and target are, of each document that both have; lines sorted by `_KEYS`."""
    ends = np.append(np.flatnonzero(~repeats(lines, *_KEYS[:2]))[1:], len(lines))
    targets, start = np.append(0, np.cumsum(lines["side"], dtype=np.int64)), 0
    for end in ends.tolist():
        border = end - int(targets[end] - targets[start])
        if start < border < end:
            yield slice(start, border), slice(border, end)
        start = end


def _searched(stores: StorePair, lines: np.ndarray, kind: str) -> Iterator[tuple[Candidates, Candidates]]:
    """For every line of either side, the best of those in its document; some documents at a time."""
    most = max(1, _VECTORS // (4 * stores[0].dim))
    batch: list[tuple[np.ndarray, np.ndarray]] = []
    held = [0, 0]
    for places in _documents(lines):
        own = [lines[part][np.argsort(lines["row"][part])] for part in places]
        if batch and any(have + len(more) > most for have, more in zip(held, own, strict=True)):
            yield _best(stores, batch, kind)
            batch, held = [], [0, 0]
        batch.append((own[0], own[1]))
        held = [have + len(more) for have, more in zip(held, own, strict=True)]
    if batch:
        yield _best(stores, batch, kind)


def _best(
    stores: StorePair, batch: list[tuple[np.ndarray, np.ndarray]], kind: str
) -> tuple[Candidates, Candidates]:
    """The best pairs of some documents, see `_searched`."""
    rows, means, vectors, spans = [], [], [], []
    for side, store in enumerate(stores):
        reader, parts = Side(store, None), [document[side] for document in batch]
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
    background = means[0], means[1]
    documents = zip(spans[0], spans[1], strict=True)
    near = restricted_search(vectors[0], vectors[1], documents, 1, background, kind)
    forward, backward = best_of_each(near, kind, background)
    return forward.mapped((rows[0], rows[1])), backward.mapped((rows[0], rows[1]))
