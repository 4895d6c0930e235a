"""Two embedding stores in, parallel sentences out."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, overload

import numpy as np

from mexma_cli.classifier.precision import EstimatedCut, PairPrecision
from mexma_cli.errors import MexmaError
from mexma_cli.formats.bitext import WRITING, MinedPair, named_format, outputs_of, write_pairs
from mexma_cli.mining.candidates import Candidates, spooled
from mexma_cli.mining.lists import Sides, others, sides_of
from mexma_cli.mining.match import match
from mexma_cli.settings.section import naming_keywords
from mexma_cli.settings.stages import MineSettings
from mexma_cli.stages.embed.inputs import refuse_overwriting
from mexma_cli.stages.knn.row_filter import RowCounts, filter_rows
from mexma_cli.stages.knn.search import EXACT, SearchResult, check_memory, search
from mexma_cli.stages.mine.documents import DocumentPairs
from mexma_cli.stages.mine.probable import check_memory_for, pair_probabilities, probable_pairs, with_score
from mexma_cli.stages.mine.texts import LookUp, PairTexts, ranks_in
from mexma_cli.stages.mine.within import match_within
from mexma_cli.store.embeddings import EmbeddingStore, StorePair, check_comparable
from mexma_cli.store.journal import FileJournal
from mexma_cli.store.spool import Spool, slices_of
from mexma_cli.text.duplicates import copy_reasons

log = logging.getLogger(__name__)

UNDERESTIMATED = "that documents are paired is not allowed for: the precision is higher than estimated"
_PAIRS = 1 << 14  # pairs whose text is in memory at a time


@dataclass(frozen=True)
class PrecomputedNeighbours:
    """The neighbours of two texts, how many of their rows take part, and as in `SearchResult`."""

    sides: Sides
    counts: tuple[RowCounts, RowCounts]
    index: str = EXACT
    recall: float | None = None


@dataclass(frozen=True)
class Estimated:
    """A threshold that was found by probabilities, for these settings, from all `pairs` that pass the
    filters, best first; the `model` knows how precise they are."""

    cut: EstimatedCut
    settings: MineSettings
    pairs: Candidates
    model: PairPrecision


@dataclass(frozen=True)
class Mined:
    """Pairs, best first, as row numbers (from 0) and as text, and what was left out."""

    candidates: Candidates
    source: RowCounts
    target: RowCounts
    dropped: dict[str, int]
    """Candidates that are not among the pairs, by reason."""
    seconds: dict[str, float]
    """Time by stage."""
    score: str
    """`margin` or `probability`."""
    how: dict[str, Any]
    """`index` and `recall` of the neighbours."""
    texts: PairTexts
    with_ids: bool
    languages: tuple[str, str]
    """FLORES-200 codes of source and target."""
    estimated: Estimated | None = None
    """None: the threshold was given, or there is no pair."""
    inputs: tuple[Path, ...] = ()
    """What `write` does not write over."""

    def __repr__(self) -> str:
        dropped = "".join(f", {count} dropped: {why}" for why, count in self.dropped.items())
        return (
            f"Mined({len(self.candidates)} pairs of {self.source.rows} and {self.target.rows} lines{dropped})"
        )

    def __len__(self) -> int:
        return len(self.candidates)

    @overload
    def __getitem__(self, place: int) -> MinedPair: ...
    @overload
    def __getitem__(self, place: slice) -> list[MinedPair]: ...
    def __getitem__(self, place: int | slice) -> MinedPair | list[MinedPair]:
        """A pair, or those of a slice, with their text."""
        places = np.arange(len(self))[place]  # an index that is not there is an IndexError, as of a list
        found = list(self.taken(np.atleast_1d(places)))
        return found if isinstance(place, slice) else found[0]

    @property
    def found(self) -> int:
        """Candidates, before anything was dropped."""
        return len(self.candidates) + sum(self.dropped.values())

    def __iter__(self) -> Iterator[MinedPair]:
        """The pairs with their text, read from disk on the way; ranks and means only if they were wanted."""
        for part in slices_of(len(self.candidates), _PAIRS):
            yield from self.taken(part)

    def taken(self, part: slice | np.ndarray) -> Iterator[MinedPair]:
        """The pairs at some places, as by iteration."""
        found = self.candidates.take(part)
        source, target = self.texts.of(part)
        columns = [found.source + 1, found.target + 1]
        if self.with_ids:
            columns += [source.rank, target.rank, found.cosines, source.mean, target.mean]
        numbers = [column.tolist() for column in columns]
        yield from map(MinedPair, found.scores.tolist(), source.sentences, target.sentences, *numbers)

    def write(self, output: str | Path, format: str | None = None) -> int:
        """Write the pairs to a file, in a format of `mexma mine --format`; None: by the file's name.

        Returns:
            The number of sentences that had to be changed to fit the format.

        Raises:
            MexmaError: The format needs languages that are not stated, or the file is an input or cannot be
                written.
        """
        path = Path(output)
        with naming_keywords(WRITING):
            kind = named_format(path, format)
            refuse_overwriting(outputs_of(path, kind.name, self.languages), self.inputs)
            return write_pairs(path, kind, self, self.languages, self.with_ids)


def mine(
    source: EmbeddingStore,
    target: EmbeddingStore,
    settings: MineSettings = MineSettings(),
    *,
    with_ids: bool = False,
    neighbours: SearchResult | PrecomputedNeighbours | None = None,
    documents: DocumentPairs | None = None,
    journal: FileJournal | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> Mined:
    """Find the pairs of two stores.

    Lines that occur more than once in a file count once, as with LASER's --unify, or with documents once in
    each; empty lines never pair. Of a store and itself, the pairs within that text: no sentence pairs with
    itself, and each pair comes once.

    Args:
        with_ids: Look up ranks and neighbourhood means of the pairs.
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
        raise MexmaError(f"{source.label} is searched in itself: documents are paired between two texts")
    if not one_text:
        _warn_of_one_text(source, target)
    if documents is not None:
        documents.check_lines((source.rows, target.rows), (source.label, target.label))
    settings = with_score(settings, source.manifest.encoder, one_text, documents is not None)
    clock, stores = Clock(), (source, target)
    check_memory_for(settings, stores)
    if not isinstance(neighbours, PrecomputedNeighbours):
        if neighbours is None:
            check_memory(settings, source.rows, target.rows, source.dim, settings.k)
        with clock("reading"):
            kept = filter_rows(source), filter_rows(source if one_text else target)
        if neighbours is None:
            with clock("neighbours"):
                keep = kept[0][0], kept[1][0]
                neighbours = search(stores, settings.k + one_text, keep, settings, journal, on_progress)
        near = neighbours.neighbours
        sides = others(near, settings.k) if one_text else sides_of(near)
        neighbours = PrecomputedNeighbours(
            sides, (kept[0][1], kept[1][1]), neighbours.index, neighbours.recall
        )
    sides, counts, twins = neighbours.sides, neighbours.counts, None
    if settings.score == "probability":
        with clock("probabilities"):
            found = probable_pairs(stores, sides, settings)
    elif documents is not None:
        with clock("documents"):
            found, counts, twins = match_within(stores, sides, documents, settings)
    else:
        with clock("matching"):
            matching = settings.margin, settings.retrieval, settings.least
            found = match(sides, *matching, one_text=one_text)
    ranks = None
    if with_ids:
        ranks = ranks_in(sides[0], twins), ranks_in(sides[1], twins and twins[::-1])
    chosen, texts, dropped = _filtered(found, stores, settings, ranks, clock)
    estimated = None
    if settings.finds and len(chosen):
        with clock("threshold"):
            estimated = _estimated(chosen, stores, sides, twins, settings)
        if documents is not None:
            log.warning("%s", UNDERESTIMATED)
        chosen = _keep_counting(chosen, slice(estimated.cut.count), dropped, "threshold")
    if settings.top is not None:
        chosen = _keep_counting(chosen, slice(settings.top), dropped, "top")
    for store in stores:
        store.check_unchanged()
    how = {"index": neighbours.index, "recall": neighbours.recall}
    score, languages = str(settings.score), (source.manifest.language, target.manifest.language)
    return Mined(
        chosen, *counts, dict(+dropped), clock.seconds, score, how, texts, with_ids, languages, estimated
    )


def _estimated(
    pairs: Candidates,
    stores: StorePair,
    sides: Sides,
    twins: tuple[np.ndarray, np.ndarray] | None,
    settings: MineSettings,
) -> Estimated:
    """The threshold that the settings want; refused where none has the precision. `twins` are those of
    `ranks_in`."""
    if settings.score == "probability":
        model = PairPrecision(pairs.scores, pairs.scores)
    else:
        given = pairs if twins is None else pairs.mapped(twins)
        model = PairPrecision(pairs.scores, pair_probabilities(stores, sides, given, settings))
    return Estimated(model.choose(settings.precision), settings, pairs, model)


def _filtered(
    found: Candidates,
    stores: StorePair,
    settings: MineSettings,
    ranks: tuple[LookUp, LookUp] | None,
    clock: Clock,
) -> tuple[Candidates, PairTexts, Counter[str]]:
    """The pairs (best first) that pass the filters, their text, and the number of dropped pairs by reason;
    `ranks` looks up ranks and means, if they are wanted with the text."""
    dropped = Counter({"threshold": found.below})
    with clock("filtering"):
        if settings.max_score is not None:
            below = slice(found.count_above(settings.max_score), None)
            found = _keep_counting(found, below, dropped, "max-score")
        if settings.top is not None and not (settings.drop_copies or settings.finds):
            found = _keep_counting(found, slice(settings.top), dropped, "top")  # before their texts are read
    with clock("texts"):
        texts = PairTexts.join(found, stores, ranks)
    if settings.drop_copies:
        with clock("filtering"):
            found, texts = _without_copies(found, texts, dropped)
    return found, texts, dropped


def _warn_of_one_text(source: EmbeddingStore, target: EmbeddingStore) -> None:
    texts = [(store.manifest.source.checksum, store.manifest.part) for store in (source, target)]
    if texts[0] == texts[1]:
        same = "%s and %s are of the same text, in which every sentence is paired with itself"
        log.warning(same, source.label, target.label)


class Clock:
    """Seconds spent in stages."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        started = time.monotonic()
        yield
        self.seconds[stage] = self.seconds.get(stage, 0.0) + time.monotonic() - started


def _keep_counting(
    found: Candidates, chosen: np.ndarray | slice, dropped: Counter[str], reason: str
) -> Candidates:
    """The chosen pairs; the others are counted as dropped."""
    kept = found.take(chosen)
    dropped[reason] += len(found) - len(kept)
    return kept


def _without_copies(
    found: Candidates, texts: PairTexts, dropped: Counter[str]
) -> tuple[Candidates, PairTexts]:
    places = Spool(np.int64)

    def kept() -> Iterator[Candidates]:
        for part in slices_of(len(found), _PAIRS):
            sides = texts.of(part)
            reasons = copy_reasons(sides[0].sentences, sides[1].sentences)
            dropped.update(filter(None, reasons))
            good = np.array([reason is None for reason in reasons])
            places.write(np.arange(part.start, part.stop)[good])
            yield found.take(part).take(good)

    return replace(spooled(kept()), below=found.below), replace(texts, places=places.array())
