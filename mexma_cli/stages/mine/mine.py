"""Two embedding stores in, parallel sentences out."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mexma_cli.errors import MexmaError
from mexma_cli.formats.bitext import MinedPair
from mexma_cli.knn.neighbours import Neighbours
from mexma_cli.mining.margin import means
from mexma_cli.mining.match import Candidates, Details, details, match
from mexma_cli.mining.one_text import match_one_text, others
from mexma_cli.mining.restricted import restricted_search
from mexma_cli.stages.knn.row_filter import RowCounts, filter_rows
from mexma_cli.stages.knn.search import SearchResult, SearchSettings, search
from mexma_cli.stages.mine.documents import DocumentPairs
from mexma_cli.stages.mine.texts import KeptTexts
from mexma_cli.store.comparable import check_comparable
from mexma_cli.store.embeddings import EmbeddingStore
from mexma_cli.store.journal import FileJournal
from mexma_cli.text.copies import copy_reason

log = logging.getLogger(__name__)

_PAIRS = 1 << 14  # pairs whose text is in memory at a time


@dataclass(frozen=True)
class MineSettings:
    """What decides which pairs come out."""

    margin: str = "ratio"
    k: int = 4
    """Neighbours that make up a neighbourhood."""
    retrieval: str = "max"
    threshold: float | None = None
    """Keep scores above it; None: as `mining.match.match`."""
    max_score: float | None = None
    """Keep scores up to it: pairs that are nearer than translations are near-copies."""
    drop_copies: bool = False
    """Leave out pairs that are copies by `text.copies.copy_reason`."""
    top: int | None = None
    """Keep this many of the best."""
    with_ids: bool = False
    """Look up ranks and neighbourhood means of the pairs."""
    search: SearchSettings = field(default_factory=SearchSettings)


@dataclass(frozen=True)
class Mined:
    """Pairs, best first, as row numbers (from 0) and as text, and what was left out."""

    candidates: Candidates
    details: Details | None
    source: RowCounts
    target: RowCounts
    dropped: dict[str, int]
    """Candidates that are not among the pairs, by reason."""
    seconds: dict[str, float]
    """Time by stage."""
    how: dict[str, Any]
    """`index` and `recall` of the neighbours."""
    _texts: tuple[KeptTexts, KeptTexts] = field(repr=False)

    @property
    def found(self) -> int:
        """Candidates, before anything was dropped."""
        return len(self.candidates) + sum(self.dropped.values())

    def pairs(self) -> Iterator[MinedPair]:
        """The pairs with their text, read from disk on the way; ranks and means only if they were wanted."""
        for part in _parts(len(self.candidates)):
            yield from self.taken(part)

    def taken(self, part: slice | np.ndarray) -> Iterator[MinedPair]:
        """The pairs at some places, as in `pairs`."""
        found = self.candidates.take(part)
        columns = [found.source + 1, found.target + 1]
        if (known := self.details) is not None:
            columns += [known.source_rank[part], known.target_rank[part], found.cosines]
            columns += [known.source_mean[part], known.target_mean[part]]
        numbers = [column.tolist() for column in columns]
        yield from map(MinedPair, found.scores.tolist(), *_sentences(self._texts, found), *numbers)


def mine(
    source: EmbeddingStore,
    target: EmbeddingStore,
    settings: MineSettings | None = None,
    *,
    neighbours: SearchResult | None = None,
    documents: DocumentPairs | None = None,
    journal: FileJournal | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> Mined:
    """Find the pairs of two stores.

    Lines that occur more than once in a file count once, as with LASER's --unify, or with documents once in
    each; empty lines never pair. Of a store and itself, the pairs within that text: no sentence pairs with
    itself, and each pair comes once.

    Args:
        neighbours: of the two stores, if they are known already; k + 1 of a store in itself.
        documents: only sentences of documents that are paired here make pairs. Neighbourhoods stay those of
            the whole text, so a pair scores the same with and without.
        journal: Where the search is kept while it runs.

    Raises:
        MexmaError: the stores are of different encoders or dimensions, or damaged, or the documents are those
            of other texts.
    """
    check_comparable(source, target)
    one_text = source.path.samefile(target.path)
    if one_text and documents is not None:
        raise MexmaError(f"{source.path} is searched in itself: documents are paired between two texts")
    if not one_text:
        _warn_of_one_text(source, target)
    if documents is not None:
        documents.check_lines((source.rows, target.rows), (str(source.path), str(target.path)))
    settings = settings or MineSettings()
    if neighbours is None:
        settings.search.check_memory(source.rows, target.rows, source.dim, settings.k)
    clock = Clock()
    with clock("reading"):
        keep_source, source_counts = filter_rows(source)
        keep_target, target_counts = (keep_source, source_counts) if one_text else filter_rows(target)
    if neighbours is None:
        with clock("neighbours"):
            keep = keep_source, keep_target
            k = settings.k + one_text
            neighbours = search((source, target), k, keep, settings.search, journal, on_progress)
    nearest = others(neighbours.neighbours, settings.k) if one_text else neighbours.neighbours
    background: tuple[np.ndarray, np.ndarray] | None = None
    pool: Neighbours = nearest
    twins = None
    if documents is not None:
        with clock("documents"):
            own, other = documents.filter((source, target), (keep_source, keep_target))
            source_counts, target_counts, twins = own.counts, other.counts, (own.twin, other.twin)
            source_means, target_means = means(nearest)
            background = source_means[own.twin], target_means[other.twin]
            rows = documents.rows(own.keep, other.keep)
            wanted = settings.k if settings.retrieval == "all" else 1  # the others look at the best alone
            pool = restricted_search(source, target, rows, wanted, background, settings.margin)
    with clock("matching"):
        how = settings.margin, settings.retrieval, settings.threshold
        found = match_one_text(pool, *how) if one_text else match(pool, *how, background=background)
    chosen, texts, dropped = filtered(found, source, target, settings, clock)
    for store in (source, target):
        store.check_unchanged()
    with clock("matching"):
        known = details(nearest, chosen.mapped(twins) if twins else chosen) if settings.with_ids else None
    return Mined(
        chosen, known, source_counts, target_counts, dropped, clock.seconds, neighbours.facts(), texts
    )


def filtered(
    found: Candidates,
    source: EmbeddingStore,
    target: EmbeddingStore,
    settings: MineSettings,
    clock: Clock | None = None,
) -> tuple[Candidates, tuple[KeptTexts, KeptTexts], dict[str, int]]:
    """The pairs that pass the filters, their text, and the number of dropped pairs by reason."""
    clock = clock or Clock()
    dropped = {"threshold": found.below}
    with clock("filtering"):
        if settings.max_score is not None:
            near = found.scores.astype(np.float64) > settings.max_score
            found = _counted(found, ~near, dropped, "max-score")
        if settings.top is not None and not settings.drop_copies:
            found = _counted(found, slice(settings.top), dropped, "top")
    with clock("texts"):
        texts = (
            KeptTexts(source.sentences(), found.source),
            KeptTexts(target.sentences(), found.target),
        )
    if settings.drop_copies:
        with clock("filtering"):
            found = _without_copies(found, texts, dropped)
            if settings.top is not None:
                found = _counted(found, slice(settings.top), dropped, "top")
    return found, texts, {reason: count for reason, count in dropped.items() if count}


def _warn_of_one_text(source: EmbeddingStore, target: EmbeddingStore) -> None:
    texts = [(store.manifest.source.checksum, store.manifest.part) for store in (source, target)]
    if texts[0] == texts[1]:
        same = "warning: %s and %s are of the same text, in which every sentence is paired with itself"
        log.warning(same, source.path, target.path)


class Clock:
    """Seconds spent in stages."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        started = time.monotonic()
        yield
        self.seconds[stage] = self.seconds.get(stage, 0.0) + time.monotonic() - started


def _counted(
    found: Candidates, chosen: np.ndarray | slice, dropped: dict[str, int], reason: str
) -> Candidates:
    """The chosen pairs; the others are counted as dropped."""
    kept = found.take(chosen)
    dropped[reason] = len(found) - len(kept)
    return kept


def _without_copies(
    found: Candidates, texts: tuple[KeptTexts, KeptTexts], dropped: dict[str, int]
) -> Candidates:
    good = np.ones(len(found), dtype=bool)
    for part in _parts(len(found)):
        for place, pair in enumerate(zip(*_sentences(texts, found.take(part)), strict=True), part.start):
            if (reason := copy_reason(*pair)) is not None:
                good[place] = False
                dropped[reason] = dropped.get(reason, 0) + 1
    return found.take(good)


def _parts(count: int) -> Iterator[slice]:
    for start in range(0, count, _PAIRS):
        yield slice(start, min(start + _PAIRS, count))


def _sentences(texts: tuple[KeptTexts, KeptTexts], found: Candidates) -> tuple[list[str], list[str]]:
    return texts[0].take(found.source), texts[1].take(found.target)
