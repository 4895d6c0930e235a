"""A search in tiles on disk: which rows take part, tiles that any process may search, and their merging."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from mexma_cli.errors import MexmaError
from mexma_cli.files import no_space_as_message, whole_file
from mexma_cli.knn.tiled import Span, merged, search_tile
from mexma_cli.stages.knn.row_filter import filter_rows
from mexma_cli.stages.knn.search import EXACT
from mexma_cli.store.embeddings import EmbeddingStore, StorePair
from mexma_cli.store.neighbours import NeighbourStore, NeighbourWriter, side_of


def write_rows(store: EmbeddingStore, output: Path) -> dict[str, int]:
    """Keep which rows of a store take part, as `filter_rows` has them: bool [rows] in a .npy file.

    Returns:
        Counts of the rows that do not, by reason.
    """
    keep, counts = filter_rows(store)
    _save(output, keep)
    left_out = asdict(counts)
    del left_out["rows"]
    return left_out


def write_tile(
    stores: StorePair,
    rows: tuple[Path, Path],
    spans: tuple[Span, Span],
    k: int,
    output: Path,
    memory: int | None = None,
) -> None:
    """Search one tile and keep the keys of both directions, int64 [rows and columns of the tile, k], as .npy.

    Args:
        rows: What `write_rows` kept of both stores.
        memory: Bytes that the search may take; None: what is fastest.
    """
    keep = _rows(rows[0], stores[0]), _rows(rows[1], stores[1])
    forward, backward = search_tile(stores, keep, spans, k, memory)
    for store in stores:
        store.check_unchanged()
    _save(output, np.concatenate([forward, backward]))


def merge_tiles(
    stores: StorePair,
    names: tuple[str, str],
    counts: tuple[dict[str, int], dict[str, int]],
    tiles: dict[tuple[Span, Span], Path],
    k: int,
    output: Path,
) -> NeighbourStore:
    """The neighbours that one search would have found, from those of all tiles.

    Args:
        names: What the manifest calls the stores.
        counts: What `write_rows` returned for both.
        tiles: Every tile of both sides, once.

    Raises:
        MexmaError: A tile is damaged, or the disk is full.
    """
    with NeighbourWriter(output, overwrite=True) as writer:
        arrays: dict[str, np.ndarray] = {}
        for side, direction in enumerate(("forward", "backward")):
            other = counts[1 - side]
            width = min(k, stores[1 - side].rows - sum(other.values()))
            scores = np.empty((stores[side].rows, width), np.float32)
            ids = np.empty((stores[side].rows, width), np.int64)
            for span in sorted({spans[side] for spans in tiles}):
                of_span = [(spans, path) for spans, path in tiles.items() if spans[side] == span]
                lists = [_tile(path, spans, k)[side] for spans, path in of_span]
                own = slice(*span)
                scores[own], ids[own] = merged(lists, width)
            arrays |= {f"{direction}_scores": scores, f"{direction}_ids": ids}
        sides = [
            side_of(store, name, **count) for store, name, count in zip(stores, names, counts, strict=True)
        ]
        return writer.finish(arrays, *sides, k=k, argv=(), index=EXACT, recall=None)


def spans_of(rows: int, size: int) -> list[Span]:
    """Rows in spans of a size, the last one perhaps shorter."""
    return [Span(start, min(start + size, rows)) for start in range(0, rows, size)]


def _tile(path: Path, spans: tuple[Span, Span], k: int) -> Sequence[np.ndarray]:
    height = spans[0].stop - spans[0].start
    keys = _load(path, (height + spans[1].stop - spans[1].start, k), np.dtype(np.int64))
    return keys[:height], keys[height:]


def _rows(path: Path, store: EmbeddingStore) -> np.ndarray:
    return _load(path, (store.rows,), np.dtype(bool))


def _save(path: Path, array: np.ndarray) -> None:
    with no_space_as_message(path), whole_file(path) as file:
        np.save(file, array)


def _load(path: Path, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
    """Read, not mapped: a mapped file that is cut short ends the process."""
    try:
        array: np.ndarray = np.load(path, allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise MexmaError(f"{path} is damaged ({error})") from None
    if array.shape != shape or array.dtype != dtype:
        raise MexmaError(f"{path} is damaged: {array.dtype} {array.shape} instead of {dtype} {shape}")
    return array
