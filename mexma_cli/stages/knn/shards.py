"""A search with indexes on disk, in pieces that any process may do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mexma_cli.knn import faiss_index
from mexma_cli.knn.effort import find_effort
from mexma_cli.knn.faiss_index import PartitionedIndex, read_index, with_threads, write_index
from mexma_cli.knn.index_search import Direction, search_span
from mexma_cli.knn.sides import SearchSide
from mexma_cli.knn.spans import Span, Window
from mexma_cli.stages.knn.span_files import read_kept_rows, write_array
from mexma_cli.store.embeddings import EmbeddingStore


def train_index(store: EmbeddingStore, rows: Path, index: str, output: Path) -> str:
    """Train an index (a factory string, or `auto`) for the rows of a store that take part, by what
    `span_files.write_kept_rows` kept; write it without them, and return the factory string."""
    side = search_side(store, rows)
    factory = faiss_index.choose_index(len(side), side.dim, index)
    with with_threads():
        write_index(faiss_index.train(side, factory), output)
    return factory


def write_shard(side: SearchSide, trained: Path, output: Path) -> int:
    """Write a copy of a trained index with the rows of a span, from `search_side`; returns their number."""
    with with_threads():
        write_index(faiss_index.fill(read_index(trained), side, 0, len(side)), output)
    return len(side)


def search_side(store: EmbeddingStore, rows: Path, span: Span | None = None) -> SearchSide:
    """The rows of a span, or all, that take part, by what `span_files.write_kept_rows` kept."""
    span = span or Span(0, store.rows)
    return SearchSide(Window(store, span), read_kept_rows(rows, store, span))


@dataclass(frozen=True)
class Indexed:
    """A store, which of its rows take part, and its index.

    Attributes:
        rows: What `span_files.write_kept_rows` kept.
        trained: From `train_index`, which said what the `factory` is.
        shards: From `write_shard`, in the order of the rows, which said how many `counts` are in each.
    """

    store: EmbeddingStore
    rows: Path
    trained: Path
    factory: str
    shards: Sequence[Path]
    counts: Sequence[int]

    def side(self) -> SearchSide:
        """The rows that take part."""
        return search_side(self.store, self.rows)

    def index(self) -> PartitionedIndex:
        """The index."""
        index = PartitionedIndex(self.factory, read_index(self.trained))
        first = 0
        for path, count in zip(self.shards, self.counts, strict=True):
            index.held.append((first, path))
            first += count
        return index


def effort_of(source: Indexed, target: Indexed, k: int, recall: float) -> dict[str, Any]:
    """How hard both indexes must be searched: what `Effort` has, with its `index`."""
    left, right = source.side(), target.side()
    ahead, back = Direction(left, right, target.index()), Direction(right, left, source.index())
    with with_threads():
        effort = find_effort(ahead, back, k, recall)
    return asdict(effort) | {"index": effort.index}


def write_found(
    direction: Direction, files: Sequence[tuple[str, Span]], hits: int, k: int, output: Path
) -> None:
    """Search the rows of a span (from `search_side`) in the index of the other side, and keep what is found,
    as `span_files.write_tile` keeps it, in files of a new folder: for each span of the other side, and at
    last for these rows, which `files` names."""
    (*others, (_, rows)) = files
    output.mkdir(exist_ok=True)
    with with_threads():
        found = search_span(direction, rows, hits, k, [span for _, span in others])
        for (name, _), lists in zip(files, found, strict=True):
            write_array(output / name, [lists], "int64", k)
