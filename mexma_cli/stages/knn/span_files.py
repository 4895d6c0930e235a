"""Files of a search in tiles (`knn.spans`): the rows that take part, the lists of a tile, and merged ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mexma_cli.files import (
    MANIFEST,
    checksum_file,
    commit,
    no_space_as_message,
    read_json,
    whole_file,
    workplace,
    write_json_atomic,
)
from mexma_cli.knn.spans import Span, merged, neighbours_in, search_tile
from mexma_cli.stages.knn.row_filter import filter_rows
from mexma_cli.store.arrays import ArrayWriter, check_content, check_size, file_size, read_array_rows
from mexma_cli.store.embeddings import EmbeddingStore, StorePair

_AGAIN = "remove it, and run again: it is made anew"
_ROWS = 1 << 20  # of a file that says which rows take part
_NEAR = 1 << 10  # rows that are read together with those between them
_KEYS = 1 << 22  # that are read and merged at a time: about 100 MB with temporary arrays


def write_kept_rows(store: EmbeddingStore, output: Path) -> dict[str, int]:
    """Keep which rows of a store take part, as `filter_rows` has them: a folder of .npy files, bool, of a
    million rows each, so that a tile reads those of its rows alone, and their checksums. Returns counts of
    the rows that do not, by reason."""
    keep, counts = filter_rows(store)
    with workplace(output) as part:
        part.mkdir()
        spans = Spans(store.rows, _ROWS)
        for place, span in enumerate(spans):
            write_array(part / f"{place:05d}.npy", [keep[slice(*span)]], "bool")
        checksums = [checksum_file(part / f"{place:05d}.npy") for place in range(len(spans))]
        write_json_atomic(part / MANIFEST, {"kind": "rows", "checksums": checksums})
        commit(output)
    return {reason: count for reason, count in asdict(counts).items() if reason != "rows"}


def read_kept_rows(path: Path, store: EmbeddingStore, span: Span) -> np.ndarray:
    """Which rows of a span of a store `write_kept_rows` kept: bool [rows of the span]."""
    checksums, found = read_json(path / MANIFEST)["checksums"], np.empty(span.rows, dtype=bool)
    for place, part in enumerate(Spans(store.rows, _ROWS)):
        first, last = max(span.start, part.start), min(span.stop, part.stop)
        if first < last:
            file = path / f"{place:05d}.npy"
            check_content(file, checksums[place], _AGAIN)
            own = Span(first - part.start, last - part.start)
            found[first - span.start : last - span.start] = _load(file, part.rows, "bool", None, own)
    return found


def write_tile(
    stores: StorePair,
    rows: tuple[Path, Path],
    spans: tuple[Span, Span],
    k: int,
    output: Path,
) -> None:
    """Search one tile, by what `write_kept_rows` kept of both stores, and keep the keys of both directions,
    int64 [rows and columns of the tile, k], as .npy."""
    keep = read_kept_rows(rows[0], stores[0], spans[0]), read_kept_rows(rows[1], stores[1], spans[1])
    lists = search_tile(stores, keep, spans, k)
    for store in stores:
        store.check_unchanged()
    write_array(output, lists, "int64", k)


class ListsFile(NamedTuple):
    """Lists of keys, ascending, of the rows of a span: some rows of a file, from `first` on, of `rows` in
    all."""

    path: Path
    first: int
    rows: int


def merge_lists(parts: Sequence[ListsFile], rows: int, k: int, width: int, output: Path) -> None:
    """Keep the best keys of some rows, best first, int64 [rows, width] in a .npy file, from all lists of
    these rows, in any order, with k keys of a row. The width is that of the other side, in rows that
    take part, or k if they are more."""
    for part in parts:
        check_size(part.path, file_size(part.rows, "int64", k), _AGAIN)
    step = max(1, _KEYS // (k * len(parts)))

    def blocks() -> Iterator[np.ndarray]:
        for start in range(0, rows, step):
            stop = min(start + step, rows)
            yield merged(
                [
                    read_array_rows(part.path, "int64", k, (part.first + start, part.first + stop), _AGAIN)
                    for part in parts
                ],
                width,
            )

    write_array(output, blocks(), "int64", width)


@dataclass(frozen=True)
class MergedLists:
    """The neighbours of a side: what `merge_lists` kept of each span of its `rows`, in their order, `width`
    of a row, of which the first k are read."""

    paths: Sequence[Path]
    rows: Sequence[int]
    width: int
    k: int

    @property
    def count(self) -> int:
        """Rows in all."""
        return sum(self.rows)

    def at(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The cosines and rows of `block` for some rows, int64 [n]; quick where they are near one another."""
        distinct, places = np.unique(rows, return_inverse=True)
        parts = [self.block(0, 0)]
        for near in np.split(distinct, np.flatnonzero(np.diff(distinct) > _NEAR) + 1):
            if len(near):
                found = self.block(int(near[0]), int(near[-1]) + 1)
                parts.append((found[0][near - near[0]], found[1][near - near[0]]))
        cosines, ids = (np.concatenate(column) for column in zip(*parts, strict=True))
        return cosines[places], ids[places]

    def block(self, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        """The neighbours of rows start to stop: cosines float32 and rows of the other side int64, both [n,
        width], as `knn.exact.Neighbours` has them."""
        found, before = [np.empty((0, self.width), np.int64)], 0
        for path, rows in zip(self.paths, self.rows, strict=True):
            own = Span(max(start - before, 0), min(stop - before, rows))
            if own.rows > 0:
                found.append(_load(path, rows, "int64", self.width, own))
            before += rows
        return neighbours_in(np.concatenate(found)[:, : self.k])


class Spans(Sequence[Span]):
    """Rows in spans of a size, the last one perhaps shorter; there may be so many that nobody lists them."""

    def __init__(self, rows: int, size: int) -> None:
        self._rows, self._starts = rows, range(0, rows, size)

    def __len__(self) -> int:
        return len(self._starts)

    def __getitem__(self, place: Any) -> Any:
        start = self._starts[place]
        return Span(start, min(start + self._starts.step, self._rows))


def write_array(path: Path, blocks: Iterable[np.ndarray], dtype: str, width: int | None = None) -> None:
    """Write the rows of some arrays to a .npy file, whole once it has its name."""
    with no_space_as_message(path), whole_file(path) as file:
        writer = ArrayWriter(file, dtype, width)
        for block in blocks:
            writer.write(block)
        writer.close()


def _load(path: Path, rows: int, dtype: str, width: int | None, span: Span) -> np.ndarray:
    """Some rows of a file of `rows`, which is refused if it has another size."""
    check_size(path, file_size(rows, dtype, width), _AGAIN)
    found = read_array_rows(path, dtype, 1 if width is None else width, span, _AGAIN)
    return found[:, 0] if width is None else found
