"""The row filter: each line of a store takes part once, unless it is empty or has no usable vector."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import numpy as np
import xxhash

from mexma_cli.knn.cosines import directed
from mexma_cli.store.embeddings import EmbeddingStore, StorePair
from mexma_cli.store.spool import Table, bytes_to_sort, repeats, scattered
from mexma_cli.text.amounts import counted
from mexma_cli.text.lines import is_blank

_VECTORS_BYTES = 16 << 20
_LINES = 1 << 16
DIGEST = np.dtype([("high", "<u8"), ("low", "<u8"), ("row", "<i8")])
"""A checksum of a line, and its row."""


def filtering_bytes(rows: int) -> int:
    """Bytes of memory that `filter_rows` takes for so many rows."""
    return _VECTORS_BYTES * 4 + rows + bytes_to_sort(rows, DIGEST)


@dataclass(frozen=True)
class RowCounts:
    """Rows of one side, and how many of them took no part, by reason."""

    rows: int
    duplicates: int
    empty: int
    unusable: int
    """Sentences whose vector is zero or not a number."""

    @property
    def kept(self) -> int:
        """Rows that take part."""
        return self.rows - self.duplicates - self.empty - self.unusable

    def __str__(self) -> str:
        left_out = (
            (self.duplicates, counted(self.duplicates, "duplicate")),
            (self.empty, f"{self.empty:,} empty"),
            (self.unusable, f"{self.unusable:,} without a usable vector"),
        )
        reasons = ", ".join(reason for count, reason in left_out if count)
        return counted(self.rows, "line") + (f" ({reasons} left out)" if reasons else "")


def filter_rows(store: EmbeddingStore) -> tuple[np.ndarray, RowCounts]:
    """The rows that take part, bool [rows], and how many do not: duplicates, empty lines, unusable vectors.

    Of equal lines the last is kept, since LASER keeps the last one's vector. Takes a byte a row; the lines'
    digests (24 bytes each) are sorted, in a temporary file if there are many. Refused: a store without
    sentences, or with damaged ones; a full disk.
    """
    reason = np.zeros(store.rows, dtype=np.uint8)  # 1 for empty lines, then 2 for duplicates, 3 for the rest
    for rows, same in _sorted_lines(store, reason):
        reason[rows[:-1][same]] = 2
    counts = np.zeros(4, dtype=np.int64)
    for part, usable in _directions(store):
        own = reason[part]
        own[(own == 0) & ~usable] = 3
        counts += np.bincount(own, minlength=4)
    keep = np.equal(reason, 0, out=reason.view(bool))
    return keep, RowCounts(store.rows, *counts[[2, 1, 3]].tolist())


class KeptRows(NamedTuple):
    """The rows of two stores that take part, bool [rows] of both, and how many do not."""

    keep: tuple[np.ndarray, np.ndarray]
    counts: tuple[RowCounts, RowCounts]

    @classmethod
    def of(cls, stores: StorePair) -> KeptRows:
        """Those of `filter_rows`; a store that is both sides is read once."""
        source = filter_rows(stores[0])
        target = source if stores[1] is stores[0] else filter_rows(stores[1])
        return cls((source[0], target[0]), (source[1], target[1]))


def twins(store: EmbeddingStore) -> np.ndarray:
    """For every row the last one with the same line, int64 [rows], memory-mapped; -1 for empty lines."""
    return scattered(store.rows, np.int64, -1, rows_and_twins(store, np.zeros(store.rows, dtype=bool)))


def rows_and_twins(store: EmbeddingStore, empty: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """In pieces, the rows that are not empty, int64 [n] in any order, and for each the last one with the same
    line; the empty ones are marked in `empty`, bool [rows]."""
    for rows, same in _sorted_lines(store, empty):
        last = np.append(np.flatnonzero(~same), len(rows) - 1)
        yield rows, rows[last[np.append(0, np.cumsum(~same))]]


def _sorted_lines(store: EmbeddingStore, empty: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """In pieces, the rows that are not empty, those of equal lines together and in file order, and bool
    [rows - 1], which of them have the line of the next. Also marks the empty lines in `empty`.
    """
    table, row, sentences = Table(DIGEST, "high", "low", "row", together=2), 0, store.sentences()
    while lines := list(islice(sentences, _LINES)):
        blank = empty[row : row + len(lines)]
        blank[:] = [is_blank(line) for line in lines]
        filled = np.flatnonzero(blank == 0)
        high, low = digests_of(lines)[filled].T
        table.append(high=high, low=low, row=row + filled)
        row += len(lines)
    for digests in table.sorted():
        yield digests["row"], repeats(digests, "high", "low")[1:]


def digests_of(lines: Iterable[str]) -> np.ndarray:
    """Checksums of lines, uint64 [n, 2]."""
    halves = b"".join(xxhash.xxh3_128_digest(line.encode("utf-8")) for line in lines)
    return np.frombuffer(halves, "<u8").reshape(-1, 2)


def have_direction(store: EmbeddingStore) -> np.ndarray:
    """bool [rows], False for vectors that are zero or not finite: they have no cosine with others."""
    found = np.zeros(store.rows, dtype=bool)
    for part, usable in _directions(store):
        found[part] = usable
    return found


def _directions(store: EmbeddingStore) -> Iterator[tuple[slice, np.ndarray]]:
    """`have_direction` of some rows after others."""
    start = 0
    for block in store.blocks(max(1, _VECTORS_BYTES // (4 * store.dim))):
        yield slice(start, start + len(block)), directed(block)
        start += len(block)
