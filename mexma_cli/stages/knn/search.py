"""The search for neighbours of two stores: exact or with an index, in a memory budget, with a journal."""

from __future__ import annotations

import logging
import os
import resource
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mexma_cli.errors import MexmaError
from mexma_cli.files import Unfinished
from mexma_cli.knn import exact_search
from mexma_cli.knn.choice import WORK, uses_torch
from mexma_cli.knn.exact import knn
from mexma_cli.knn.neighbours import Neighbours, TooLittleMemory
from mexma_cli.mining.lists import Sides
from mexma_cli.mining.match import bytes_to_mine
from mexma_cli.numerics.machine import memory_limit
from mexma_cli.settings.stages import EXACT, SearchSettings
from mexma_cli.stages.knn.row_filter import DIGEST, KeptRows, RowCounts
from mexma_cli.store.embeddings import StorePair
from mexma_cli.store.journal import FileJournal, kept_beside
from mexma_cli.store.neighbours import content_checksum
from mexma_cli.store.spool import bytes_to_sort
from mexma_cli.text.amounts import counted, size, size_option

log = logging.getLogger(__name__)

_LOADING_BYTES = 60_000_000  # for compiled code, once it has been called
_PROGRAM_BYTES = 70_000_000  # that the process holds at least, once it has read a few lines
_RESULT_BYTES = 12  # a score and an id
_READING_BYTES = 32 << 20  # for blocks of lines and vectors while rows are filtered
_HINT_STEP = 10_000_000  # measured memory differs from run to run: hints are rounded up to this


def result_bytes(rows: int, k: int) -> int:
    """Bytes that the neighbours and the pairs made of them take, for the rows of both sides together."""
    return _RESULT_BYTES * k * rows + bytes_to_mine(rows, k)


def check_memory(settings: SearchSettings, n: int, m: int, dim: int, k: int, judging: int = 0) -> None:
    """Refuse a `memory` that is too little for a search of n and m rows, or for the `judging` of their pairs
    (bytes), before anything of them is read.

    A search that may take more than the container's limit is warned of: the system would end the process
    without a word.
    """
    limit = memory_limit()
    if settings.memory is not None:
        least_memory(settings, n, m, dim, k, judging)
        if limit is not None and settings.memory > limit:
            log.warning(
                "this container may hold %s: --memory %s stays within",
                *(size(limit), size_option(limit * 9 // 10)),
            )
    elif limit is not None and n * m * dim >= WORK:
        wanted = max(
            least_memory(settings, n, m, dim, k, judging), fastest_memory(n, m, dim, k, settings.index)
        )
        if wanted > limit:
            log.warning(
                "about %s are wanted, and this container may hold %s: --memory %s stays within",
                *(size(wanted), size(limit), size_option(limit * 9 // 10)),
            )


def fastest_memory(n: int, m: int, dim: int, k: int, index: str) -> int:
    """Bytes with which a search of n and m rows is fastest, the process's own with them."""
    if has_index(n, m, index):
        from mexma_cli.knn import approximate

        return approximate.bytes_needed(n, m, dim, k, index) + resident()  # with faiss
    return resident() + exact_search.bytes_needed(n, m, dim, k, min(n, exact_search.X_ROWS))


def least_memory(settings: SearchSettings, n: int, m: int, dim: int, k: int, judging: int = 0) -> int:
    """Bytes of `memory` that are enough for a search of n and m rows, and for the `judging` of their pairs
    (bytes that the process does not hold yet); the same whatever `memory` is. Refused if `memory` is too
    little."""
    _load_libraries(n * m * dim)
    needed = least_bytes(n, m, dim, k, settings.index)
    own = max(resident(), _PROGRAM_BYTES + _LOADING_BYTES)  # the same before and after something is read
    held = own + _READING_BYTES + bytes_to_sort(max(n, m), DIGEST)
    least = max(enough(held, max(result_bytes(n + m, k), needed)), enough(own, judging))
    if settings.memory is not None and judging and own + judging > settings.memory:
        raise MexmaError(
            f"--memory {size(settings.memory)} is too little for probabilities, which take "
            f"{size(own + judging)}",
            f"--memory {size_option(least)} is enough; --margin ratio takes less",
        )
    memory_for_search(settings.memory, held, n + m, k, needed)
    return least


def _load_libraries(work: int) -> None:
    """Load what a search of so many multiplications will use, so that `resident` counts it."""
    if uses_torch(work):
        from mexma_cli.knn.device import load_libraries

        load_libraries()


def memory_for_search(memory: int | None, held: int, rows: int, k: int, needed: int) -> int | None:
    """Bytes of `memory` that are left for a search of so many rows of both sides, where the process holds so
    much (`resident`), and the search needs so much at least; None where there is no limit. If it, or what
    follows it, does not fit, the message says how much would be enough."""
    if memory is None:
        return None
    later = result_bytes(rows, k)
    if held + max(later, needed) > memory:
        raise _too_little(
            memory,
            f"for {counted(rows, 'line')}: the program takes {size(held)}, finding their neighbours "
            f"{size(needed)}, and the neighbours and pairs {size(later)}",
            held,
            max(later, needed),
        )
    return memory - held


def _too_little(memory: int | None, why: str, held: int, needed: int) -> MexmaError:
    """The refusal of too small a limit, with one that is enough."""
    assert memory is not None
    return MexmaError(
        f"--memory {size(memory)} is too little {why}",
        f"--memory {size_option(enough(held, needed))} is enough; a smaller -k, or the text in parts, "
        "takes less",
    )


@dataclass(frozen=True)
class SearchResult:
    """Neighbours of two stores, how many of their rows take part, and how the neighbours were found: `index`,
    and the measured `recall`, None for an exact search."""

    neighbours: Neighbours | Sides
    counts: tuple[RowCounts, RowCounts]
    index: str = EXACT
    recall: float | None = None


def search_stores(
    stores: StorePair,
    k: int,
    rows: KeptRows,
    settings: SearchSettings,
    journal: FileJournal | None = None,
    on_progress: Callable[[int, int], object] | None = None,
) -> SearchResult:
    """Find the k nearest neighbours of both stores' rows in the other, of the rows that take part. A search
    that was killed goes on in its journal. Refused: too little memory for it, an index that faiss does not
    know, or that finds too little."""
    (source, target), keep = stores, rows.keep
    held, memory = 0, None
    if settings.memory is not None:
        _load_libraries(source.rows * target.rows * source.dim)
        needed = least_bytes(int(keep[0].sum()), int(keep[1].sum()), source.dim, k, settings.index)
        held = resident()  # with the libraries
        memory = memory_for_search(settings.memory, held, source.rows + target.rows, k, needed)
    options: dict[str, Any] = {
        "keep_x": keep[0],
        "keep_y": keep[1],
        "journal": journal,
        "on_progress": on_progress,
    }
    try:
        if settings.index == EXACT:
            return SearchResult(knn(source, target, k, memory=memory, **options), rows.counts)
        found, index, recall = _approximate(stores, k, settings, memory, options)
        return SearchResult(found, rows.counts, index, recall)
    except TooLittleMemory as error:  # less than what it was begun with
        raise _too_little(settings.memory, f"here: {error.message}", held, error.needed) from None


def _approximate(
    stores: StorePair, k: int, settings: SearchSettings, memory: int | None, options: dict[str, Any]
) -> tuple[Neighbours, str, float | None]:
    """What `search_stores` finds by an index, in so many bytes of memory, with `index` and `recall` of its
    result; `options` are those of `knn`."""
    from mexma_cli.knn.approximate import ann
    from mexma_cli.knn.effort import TOLERATED, TooLittleRecall

    try:
        near = ann(*stores, k, settings.but(memory=memory), **options)
    except TooLittleRecall:
        if options["journal"] is not None:
            options["journal"].forget()
        raise
    how = near.effort
    if how.index == EXACT:
        log.info("so few lines are searched exactly")
        return near.neighbours, EXACT, None
    for place, side in enumerate(("source", "target")):
        index = f"{how.indexes[place]} {how.parameters[place]}".rstrip()
        log.info(
            "%s: %s: %.1f %% of the neighbours found, %.1f %% of the nearest (%s lines sampled)",
            *(side, index, 100 * how.recall[place], 100 * how.recall_first[place], how.sample[place]),
        )
    if near.recall < settings.recall - TOLERATED:
        log.warning("%.1f %% were asked for; the exact search finds all", 100 * settings.recall)
    return near.neighbours, how.index, near.recall


def journal_beside(
    by: str, output: Path | None, stores: StorePair, k: int, settings: SearchSettings
) -> AbstractContextManager[FileJournal | None]:
    """The journal of a command's search in the workplace of an output, see `kept_beside`; one of another
    search is refused."""
    source, target = map(content_checksum, stores)
    of = {"source": source, "target": target, "k": k} | index_settings(settings)
    return kept_beside(output, FileJournal, Unfinished(by=by, of=of))


def index_settings(settings: SearchSettings) -> dict[str, Any]:
    """All settings that decide what an index finds; empty without one."""
    names = ("index", "recall", "memory") if settings.index != EXACT else ()
    return {name: getattr(settings, name) for name in names}


def has_index(n: int, m: int, index: str) -> bool:
    """Whether such a search of n and m rows takes an index: `auto` has none for few."""
    if index == EXACT:
        return False
    from mexma_cli.knn import faiss_index

    return faiss_index.takes_index(index, n * m)


def least_bytes(n: int, m: int, dim: int, k: int, index: str) -> int:
    """Bytes that a search of n and m rows takes at least."""
    if not has_index(n, m, index):
        return exact_search.least_bytes(n, m, dim, k)
    from mexma_cli.knn import approximate

    return approximate.least_bytes(n, m, k)


def enough(held: int, needed: int) -> int:
    """A limit for the process that leaves so many bytes, even if the next run holds a little more."""
    return -(-(held + needed + held // 20) // _HINT_STEP) * _HINT_STEP


def resident() -> int:
    """Bytes of memory that this process holds, and those that compiled code will take."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") + _LOADING_BYTES
    except OSError:  # not Linux
        return peak_memory() + _LOADING_BYTES


def peak_memory() -> int:
    """The most memory that this process has held at a time, in bytes."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024
