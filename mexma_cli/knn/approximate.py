"""Approximate nearest neighbours in both directions, from FAISS indexes, with exact cosines.

For every row of x, an index over y is asked for more neighbours than are wanted; for every row of y, an
index over x is. The exact cosine of every pair that an index returns is computed and offered to the lists of
both rows, so that a pair is found if either index returns it. All cosines are exact, but neighbours can be
missed. The recall, the share of the true neighbours that is found, is measured on a sample that is also
searched exactly.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from mexma_cli.knn import faiss_index
from mexma_cli.knn.effort import Effort, fewest_hits, find_effort
from mexma_cli.knn.exact_search import search_exactly
from mexma_cli.knn.faiss_index import SideIndex, choose_index, lists_in, training_rows, with_threads
from mexma_cli.knn.index_search import BLOCK_BYTES, CHUNK, Direction, row_bytes, score_span
from mexma_cli.knn.neighbours import Neighbours, TooLittleMemory, no_neighbours
from mexma_cli.knn.sides import SearchSide, VectorSource
from mexma_cli.knn.spans import Span
from mexma_cli.numerics.devices import pick_device
from mexma_cli.settings.stages import EXACT, SearchSettings
from mexma_cli.store.journal import FileJournal
from mexma_cli.text.amounts import size

_OVERHEAD = 64 << 20  # bytes for samples and for faiss itself
_LEAST = 32 << 20


@dataclass(frozen=True)
class ApproximateNeighbours:
    """The neighbours that were found, and how.

    Attributes:
        effort: And what it finds, for rows of x and for rows of y.
        files: How many files the index over y was in, and the one over x; 0: it was in memory.
    """

    neighbours: Neighbours
    effort: Effort
    files: tuple[int, int] = (0, 0)

    @property
    def recall(self) -> float:
        """The fraction of the true neighbours found, over the samples of both directions."""
        return sum(self.effort.recall) / 2


def ann(
    x: np.ndarray | VectorSource,
    y: np.ndarray | VectorSource,
    k: int,
    settings: SearchSettings = SearchSettings(index="auto"),
    *,
    keep_x: np.ndarray | None = None,
    keep_y: np.ndarray | None = None,
    journal: FileJournal | None = None,
    on_progress: Callable[[int, int], object] | None = None,
) -> ApproximateNeighbours:
    """Find about the k nearest rows by cosine, from x to y and from y to x.

    The same memory gives the same result for indexes with lists; graphs of all rows (HNSW) that more
    than one thread builds differ a little from run to run.

    Args:
        x, y, k, keep_x, keep_y: As for `exact.knn`.
        settings: The search effort (nprobe, the number of lists that are searched; efSearch of an HNSW graph)
            begins small and is doubled until a sample has the `recall`, or half of the lists are searched;
            1.0: as much as the index can find. `memory` is what the search may take, x and y not counted: the
            results are taken off first, and an index that needs more than half of the rest is cut into parts,
            which lie in temporary files and are loaded in turn.
        journal: Keeps the indexes and the results so far, and gives them back to the next run of the same
            search, which goes on with the memory of the first run.
        on_progress: Called with (rows done, rows in all), where a row counts once when it is put into an
            index and once when it is answered.

    Returns:
        Neighbours as from `knn`: sorted, as many a row, with exact float32 cosines. A row for which the
        index had fewer than k answers is answered exactly.

    Raises:
        MexmaError: faiss does not know the index, there are too few rows to train it, or no such device.
        TooLittleMemory: It cannot be done in that much memory.
        TooLittleRecall: The index cannot find that much.
        ValueError: As for `knn`.
    """
    pick_device("auto")  # refused now, not when the indexes are built
    left, right = SearchSide(x, keep_x), SearchSide(y, keep_y)
    if not faiss_index.takes_index(settings.index, len(left) * len(right)):
        found = search_exactly(left, right, k, settings.memory, journal, on_progress)
        everything = Effort((EXACT, EXACT), k, ("", ""), (1.0, 1.0), (1.0, 1.0), (len(left), len(right)))
        return ApproximateNeighbours(Neighbours.of(found, left, right), everything)
    if journal is not None and "memory" in journal.facts:
        settings = settings.but(memory=journal.facts["memory"])
    done, rows = 0, 2 * (len(left) + len(right))

    def progress(more: int) -> None:
        nonlocal done
        done += more
        if on_progress is not None:
            on_progress(done, rows)

    files = nullcontext(journal.folder) if journal else tempfile.TemporaryDirectory(prefix="mexma-")
    with with_threads(), files as folder:
        return _approximate(left, right, k, settings, Path(folder), journal, progress)


def _approximate(
    left: SearchSide,
    right: SearchSide,
    k: int,
    settings: SearchSettings,
    folder: Path,
    journal: FileJournal | None,
    progress: Callable[[int], None],
) -> ApproximateNeighbours:
    """The search of `ann` with an index over each side; `folder` is for those that are kept in files."""
    lists = no_neighbours(left, right, k)
    working = _working(settings.memory, len(left), len(right), k)
    share, chunk = (None, CHUNK) if working is None else (working // 4, working // 4)
    indexes = []
    for name, side in (("y", right), ("x", left)):
        factory = choose_index(len(side), side.dim, settings.index)
        indexes.append(SideIndex(side, factory, share, folder / f"index-{name}", journal, progress))
        if journal is not None:
            journal.note(memory=settings.memory)
    for built in indexes:
        built.fill()
    ahead, back = Direction(left, right, indexes[0]), Direction(right, left, indexes[1])
    effort = _effort(ahead, back, k, settings, journal)
    kept = journal.load(*lists) if journal else None
    done = kept[2] if kept else 0  # rows of both sides, in this order
    progress(done)
    for direction, own, theirs, before in ((ahead, *lists, 0), (back, *lists[::-1], len(left))):
        if done >= before + len(direction.own):
            continue
        whole = Span(0, len(direction.other))
        for first, stop in direction.chunks(effort.hits, done - before, chunk):
            # nothing of a chunk is kept while the next one is looked up
            score_span(
                *direction.look_up(first, stop, effort.hits, k), first, direction.other, whole, own, theirs
            )
            done += stop - first
            progress(stop - first)
            if journal is not None and journal.due():
                journal.save((len(left), 0, done), *lists)
    of_y, of_x = indexes
    return ApproximateNeighbours(Neighbours.of(lists, left, right), effort, (of_y.files, of_x.files))


def _effort(
    ahead: Direction, back: Direction, k: int, settings: SearchSettings, journal: FileJournal | None
) -> Effort:
    """Find the search effort that the recall needs, or take what an earlier run of this search found."""
    if known := dict(journal.facts.get("searched", {})) if journal else {}:
        effort = Effort(hits=known.pop("hits"), **{name: tuple(both) for name, both in known.items()})
        ahead.index.effort, back.index.effort = effort.parameters
        return effort
    began = time.monotonic()
    effort = find_effort(ahead, back, k, settings.recall)
    if journal is not None:
        journal.note(began, searched=asdict(effort))
    return effort


def least_bytes(n: int, m: int, k: int) -> int:
    """Bytes without which `ann` of n and m rows with an index is refused."""
    return _result_bytes(n, m, k) + _OVERHEAD + _LEAST


def bytes_needed(n: int, m: int, dim: int, k: int, index: str) -> int:
    """Bytes that `ann` of n and m rows with an index takes where the memory has no limit, about."""
    held, training, row = 0, 0, row_bytes(dim, fewest_hits(k))
    for rows in (n, m):
        held += round(faiss_index.SLACK * faiss_index.bytes_needed(rows, dim, index))
        lists = lists_in(choose_index(rows, dim, index))
        training = max(training, 12 * dim * min(rows, training_rows(lists)))
    looking = min(CHUNK, row * max(n, m)) + BLOCK_BYTES
    return _result_bytes(n, m, k) + max(training, held + looking)


def _result_bytes(n: int, m: int, k: int) -> int:
    return 20 * (n * min(k, m) + m * min(k, n))


def _working(memory: int | None, n: int, m: int, k: int) -> int | None:
    if memory is None:
        return None
    results, needed = _result_bytes(n, m, k), least_bytes(n, m, k)
    if memory < needed:
        raise TooLittleMemory(
            f"the neighbours alone need {size(results)} and the search {size(_OVERHEAD + _LEAST)}, "
            f"{size(max(memory, 0))} are there",
            needed,
        )
    return memory - results - _OVERHEAD
