"""Two embedding stores in, their neighbours in both directions out, kept for later stages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from mexma_cli.errors import MexmaError
from mexma_cli.files import clear
from mexma_cli.knn.exact import knn
from mexma_cli.knn.neighbours import Neighbours
from mexma_cli.settings.stages import EXACT, KnnSettings
from mexma_cli.stages.embed.inputs import is_store, open_store
from mexma_cli.stages.knn.row_filter import KeptRows, RowCounts, twins
from mexma_cli.stages.knn.search import (
    SearchResult,
    check_memory,
    index_settings,
    journal_beside,
    search_stores,
)
from mexma_cli.store.embeddings import EmbeddingStore, StorePair, check_comparable
from mexma_cli.store.neighbours import NeighbourStore, searched_store, searching, write
from mexma_cli.store.spool import slices_of

_TWINS = 1 << 12  # rows whose vectors are compared at once


def find_neighbours(
    stores: StorePair,
    output: str | Path,
    settings: KnnSettings = KnnSettings(),
    *,
    argv: Sequence[str] = (),
    overwrite: bool = False,
    on_progress: Callable[[int, int], object] | None = None,
) -> NeighbourStore:
    """Find the k nearest rows of the other side for every row of both, and keep them.

    As in `mine`, lines that occur more than once count once, and empty lines and vectors without a direction
    take no part; their numbers are in the manifest. A search that was killed goes on where its journal ends
    when it is called again for the same output, to the same bytes. Refused: stores that do not fit each
    other, a side with nothing to search for, an output that is there already or was begun with others, a full
    disk.
    """
    check_comparable(*stores)
    k = settings.k
    check_memory(settings, stores[0].rows, stores[1].rows, stores[0].dim, k)
    output = Path(output)
    with searching(output, overwrite), journal_beside("knn", output, stores, k, settings) as journal:
        rows = KeptRows.of(stores)
        for store, count in zip(stores, rows.counts, strict=True):
            if not count.kept:
                raise MexmaError(f"{store.label} has no sentence to find neighbours of: {count}")
        found = search_stores(stores, k, rows, settings, journal, on_progress)
        for store in stores:
            store.check_unchanged()
        sides = [
            searched_store(store, duplicates=left.duplicates, empty=left.empty, unusable=left.unusable)
            for store, left in zip(stores, rows.counts, strict=True)
        ]
        return write(
            output,
            vars(found.neighbours),
            *sides,
            k=k,
            argv=tuple(argv),
            asked=index_settings(settings),
            index=found.index,
            recall=found.recall,
        )


def kept_already(path: Path, inputs: Sequence[Path], settings: KnnSettings) -> bool:
    """Whether the neighbours that a search in these inputs would find are at a path already, whole; that is
    not known of texts, which would have to be embedded for it. Neighbours of another search are refused."""
    if not (NeighbourStore.is_at(path) and all(map(is_store, inputs))):
        return False
    store, (source, target) = NeighbourStore.open(path), map(open_store, inputs)
    wanted = {"k": settings.k, "index": EXACT} | index_settings(settings)
    if differences := store.differences(source, target, wanted):
        raise MexmaError(
            f"{path} is there already, of another search: {'; '.join(differences)}",
            "--overwrite makes it anew, or name another output",
        )
    store.verify()
    clear(path)
    return True


def read_neighbours(path: str | Path, source: EmbeddingStore, target: EmbeddingStore, k: int) -> SearchResult:
    """The k nearest of kept neighbours; refused if they are of other stores, or fewer were kept."""
    store = NeighbourStore.open(path)
    store.check_made_of(source, target)
    if store.manifest.k < k:
        raise MexmaError(
            f"{path} has {store.manifest.k} neighbours a row, {k} are wanted",
            f"give -k {store.manifest.k}, or make it anew: mexma knn -k {k}",
        )
    manifest = store.manifest
    source_rows, target_rows = (
        RowCounts(side.rows, side.duplicates, side.empty, side.unusable)
        for side in (manifest.source, manifest.target)
    )
    counts = source_rows, target_rows
    return SearchResult(Neighbours(*store.read(k)), counts, manifest.index, manifest.recall)


def fill_repeated(
    scores: np.ndarray,
    ids: np.ndarray,
    store: EmbeddingStore,
    other: EmbeddingStore,
    repeated: np.ndarray,
    keep: np.ndarray,
    k: int,
) -> None:
    """Find neighbours, in place, for rows that the row filter left out since an equal line follows: those of
    that line, if it has the same vector.

    Args:
        scores, ids: [rows of `store`, k], from `knn`.
        repeated: bool [rows of `store`], the rows.
        keep: bool [rows of `other`], where neighbours were looked for.
    """
    rows = np.flatnonzero(repeated)
    if not len(rows):
        return
    lines, others = twins(store), repeated.copy()
    for part in slices_of(len(rows), _TWINS):
        own, twin = rows[part], lines[rows[part]]
        same = (ids[twin] >= 0).any(axis=1) & (store.take(own) == store.take(twin)).all(axis=1)
        own, twin = own[same], twin[same]
        scores[own], ids[own], others[own] = scores[twin], ids[twin], False
    if others.any():
        found = knn(store, other, k, keep_x=others, keep_y=keep)
        scores[others] = found.forward_scores[others]
        ids[others] = found.forward_ids[others]
