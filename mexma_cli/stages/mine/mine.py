"""Two embedding stores in, parallel sentences out."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, overload

import numpy as np

from mexma_cli.classifier.precision import Errors, EstimatedCut, PairPrecision, Translations
from mexma_cli.formats.bitext import DEFAULT, WRITING, MinedPair, named_format, outputs_of, write_pairs
from mexma_cli.languages import UNSTATED
from mexma_cli.mining.candidates import Candidates, spooled_pairs
from mexma_cli.mining.lists import Sides, others, sides_of
from mexma_cli.mining.match import match
from mexma_cli.mining.retrieval import least_of
from mexma_cli.settings.section import naming_keywords
from mexma_cli.settings.stages import MineSettings
from mexma_cli.stages.embed.inputs import is_one_text, refuse_overwriting
from mexma_cli.stages.knn.row_filter import KeptRows, RowCounts
from mexma_cli.stages.knn.search import SearchResult, search_stores
from mexma_cli.stages.mine.documents import DocumentFiles, DocumentPairs
from mexma_cli.stages.mine.probable import pair_probabilities, probable_pairs
from mexma_cli.stages.mine.texts import LookUp, PairTexts, ranks_in
from mexma_cli.stages.mine.within import Matched, match_within
from mexma_cli.store.embeddings import StorePair
from mexma_cli.store.journal import FileJournal
from mexma_cli.store.spool import Spool, slices_of
from mexma_cli.text.amounts import counted
from mexma_cli.text.duplicates import copy_reasons
from mexma_cli.text.lines import label_of

log = logging.getLogger(__name__)

UNDERESTIMATED = "that documents are paired is not allowed for: the precision is higher than estimated"
_UNBALANCED = 3  # times as many lines, about which a warning is given
_SHARES = (0.25, 0.5, 0.75, 0.9, 0.97)  # of the translations: the rows of the table
_PAIRS = 1 << 14  # pairs whose text is in memory at a time


@dataclass(frozen=True)
class MiningJob:
    """A job of mining: inputs, settings and outputs.

    Attributes:
        paths: Source and target, stores or texts; twice the same for the pairs within one text.
        files: Of this `format`; none for stdout.
        with_ids: Look up ranks and neighbourhood means of the pairs, and write them.
        documents: Only sentences of documents that are paired here make pairs. Neighbourhoods stay those of
            the whole text, so a pair scores the same with and without.
        neighbours: Those that are known already, or where `mexma knn` kept them; k + 1 of a text in itself.
        thresholds: A file of known thresholds, from which that of the settings is taken.
    """

    paths: tuple[Path, Path]
    languages: tuple[str, str] = (UNSTATED, UNSTATED)
    settings: MineSettings = field(default_factory=MineSettings)
    files: list[Path] = field(default_factory=list)
    format: str = DEFAULT
    with_ids: bool = False
    documents: DocumentFiles | None = None
    neighbours: Path | SearchResult | None = None
    report: Path | None = None
    thresholds: Path | None = None

    @property
    def one_text(self) -> bool:
        """Whether pairs within one text are wanted."""
        return is_one_text(*self.paths)

    @property
    def names(self) -> tuple[str, str]:
        """The names of source and target in messages."""
        return label_of(self.paths[0]), label_of(self.paths[1])

    @property
    def inputs(self) -> tuple[Path, ...]:
        """All files and folders that are read."""
        kept = self.neighbours if isinstance(self.neighbours, Path) else None
        return tuple(path for path in (*self.paths, *(self.documents or ()), kept, self.thresholds) if path)


@dataclass(frozen=True)
class Estimated:
    """A threshold that was found by probabilities, for these settings, from all `pairs` that pass the
    filters and are no copies, best first; the `model` knows how precise they are."""

    best: EstimatedCut
    settings: MineSettings
    pairs: Candidates
    model: PairPrecision
    copies: int
    """Pairs that are copies, which are no translations."""

    @property
    def translations(self) -> Translations:
        """How many of all pairs are translations."""
        return Translations(self.best.translations, *self.model.translations_interval, self.copies)

    @property
    def table(self) -> list[EstimatedCut]:
        """Thresholds that keep a quarter to nearly all of the translations, and the best one, highest
        first."""
        cuts = {cut.threshold: cut for cut in (*self.model.ladder(_SHARES), self.best)}
        return [cuts[threshold] for threshold in sorted(cuts, reverse=True)]

    def __repr__(self) -> str:
        return f"Estimated{repr(self.best).removeprefix('EstimatedCut')}"


class Clock:
    """Seconds spent in stages."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        started = time.monotonic()
        yield
        self.seconds[stage] = self.seconds.get(stage, 0.0) + time.monotonic() - started


@dataclass(frozen=True)
class Mined:
    """Pairs, best first, as row numbers (from 0) and as text, and what was left out."""

    candidates: Candidates
    every: Candidates
    """All candidates, also those that were dropped, best first."""
    above: int
    """How many of these have a greater score than the threshold."""
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
    errors: Errors
    """Of probabilities."""
    estimated: Estimated | None = None
    """None: the threshold was given, or there is no pair but copies."""
    inputs: tuple[Path, ...] = ()
    """What `write` does not write over."""

    def __repr__(self) -> str:
        lines = f"{self.source.rows:,} and {self.target.rows:,} lines"
        dropped = f", {sum(self.dropped.values()):,} dropped" * bool(self.dropped)
        return f"Mined({counted(len(self), 'pair')} of {lines}{dropped})"

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
    def overestimated(self) -> str | None:
        """A warning where many lines are searched for few translations, of pairs with probabilities."""
        by_probability = self.score == "probability" or self.estimated is not None
        lines = {"source": max(self.source.kept, 1), "target": max(self.target.kept, 1)}
        less, more = sorted(lines, key=lines.__getitem__)
        if not by_probability or lines[more] < _UNBALANCED * lines[less]:
            return None
        times = f"the {more} has {lines[more] / lines[less]:.0f} times as many lines as the {less}"
        return f"{times}: fewer pairs may be right than estimated; `mexma tune --label 50` corrects that"

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
            format_ = named_format(path, format)
            refuse_overwriting(outputs_of(path, format_.name, self.languages), self.inputs)
            return write_pairs(path, format_, self, self.languages, self.with_ids)


def mine(
    stores: StorePair, near: SearchResult, job: MiningJob, documents: DocumentPairs | None, clock: Clock
) -> Mined:
    """Find the pairs of two stores, which are one and the same for the pairs within a text, from their
    neighbours.

    Lines that occur more than once in a file count once, as with LASER's --unify, or with documents once in
    each; empty lines never pair. Within a text no sentence pairs with itself, and each pair comes once.

    Args:
        job: Its settings say by which score, see `with_score`; its paths are those of the stores.
        documents: Those of the job.
    """
    sides = others(near.neighbours, job.settings.k) if stores[0] is stores[1] else sides_of(near.neighbours)
    matched = matched_of(stores, sides, near, documents, job.settings, clock)
    pairs, texts, dropped, estimated = selected(stores, sides, matched, job, clock)
    threshold = least_of(job.settings) if estimated is None else estimated.best.threshold
    for store in stores:
        store.check_unchanged()
    found = Mined(
        pairs,
        matched.pairs,
        len(matched.pairs) if threshold is None else matched.pairs.count_above(threshold),
        *matched.counts,
        dropped=dropped,
        seconds=clock.seconds,
        score=str(job.settings.score),
        how={"index": near.index, "recall": near.recall},
        texts=texts,
        with_ids=job.with_ids,
        languages=job.languages,
        errors=matched.errors,
        estimated=estimated,
        inputs=tuple(map(Path.absolute, job.inputs)),
    )
    if found.overestimated is not None:
        log.warning("%s", found.overestimated)
    return found


def neighbours_of(
    stores: StorePair,
    settings: MineSettings,
    clock: Clock,
    journal: FileJournal | None = None,
    on_progress: Callable[[int, int], object] | None = None,
) -> SearchResult:
    """Search for the neighbours that `mine` wants; a search that was killed goes on in its journal."""
    source, target = stores
    with clock("reading"):
        rows = KeptRows.of(stores)
    with clock("neighbours"):
        return search_stores(stores, settings.k + (source is target), rows, settings, journal, on_progress)


def matched_of(
    stores: StorePair,
    sides: Sides,
    near: SearchResult,
    documents: DocumentPairs | None,
    settings: MineSettings,
    clock: Clock,
) -> Matched:
    """The pairs that the score and the retrieval take of the neighbours, best first."""
    if settings.score == "probability":
        with clock("probabilities"):
            pairs, errors = probable_pairs(stores, sides, settings)
            return Matched(pairs, near.counts, errors=errors)
    if documents is not None:
        with clock("documents"):
            return match_within(stores, sides, documents, settings)
    with clock("matching"):
        return Matched(match(sides, settings, one_text=stores[0] is stores[1]), near.counts)


class Selected(NamedTuple):
    """The pairs that pass all filters, best first, and their text; how many do not, by reason; and the
    threshold, if one was found."""

    pairs: Candidates
    texts: PairTexts
    dropped: dict[str, int]
    estimated: Estimated | None


def selected(stores: StorePair, sides: Sides, matched: Matched, job: MiningJob, clock: Clock) -> Selected:
    """Select the pairs that pass the filters of a job, and those above a threshold that is found for it."""
    settings, twins = job.settings, matched.twins
    ranks = None
    if job.with_ids:
        ranks = ranks_in(sides[0], twins), ranks_in(sides[1], twins and twins[::-1])
    pairs, texts, dropped = _filtered(matched.pairs, stores, settings, ranks, clock)
    estimated = None
    if settings.finds and len(pairs):
        with clock("threshold"):
            estimated = _estimated(pairs, texts, stores, sides, matched, settings)
    if estimated is not None:
        if job.documents is not None:
            log.warning("%s", UNDERESTIMATED)
        above = slice(pairs.count_above(estimated.best.threshold))
        pairs = _keep_counting(pairs, above, dropped, "threshold")
    if settings.top is not None:
        pairs = _keep_counting(pairs, slice(settings.top), dropped, "top")
    return Selected(pairs, texts, dict(+dropped), estimated)


def _estimated(
    found: Candidates,
    texts: PairTexts,
    stores: StorePair,
    sides: Sides,
    matched: Matched,
    settings: MineSettings,
) -> Estimated | None:
    """The threshold that the settings want; None where all pairs are copies; refused where none has the
    precision."""
    pairs = found if settings.drop_copies else _without_copies(found, texts, Counter())[0]
    if not len(pairs):
        return None
    chances, errors = pairs.scores, matched.errors
    if settings.score != "probability":
        given = pairs if matched.twins is None else pairs.mapped(matched.twins)
        chances, errors = pair_probabilities(stores, sides, given, settings)
    model = PairPrecision(pairs.scores, chances, errors)
    return Estimated(model.choose(settings.precision), settings, pairs, model, len(found) - len(pairs))


def _filtered(
    found: Candidates,
    stores: StorePair,
    settings: MineSettings,
    ranks: tuple[LookUp, LookUp] | None,
    clock: Clock,
) -> tuple[Candidates, PairTexts, Counter[str]]:
    """The pairs (best first) that pass the filters, their text, and the number of dropped pairs by reason;
    `ranks` looks up ranks and means, if they are wanted with the text."""
    dropped = Counter(threshold=0)
    with clock("filtering"):
        if (least := least_of(settings)) is not None:
            found = _keep_counting(found, slice(found.count_above(least)), dropped, "threshold")
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


def _keep_counting(
    found: Candidates, chosen: np.ndarray | slice, dropped: Counter[str], reason: str
) -> Candidates:
    """The chosen pairs; the others are counted as dropped."""
    kept = found.take(chosen)
    dropped[reason] += len(found) - len(kept)
    return kept


def translations_of(pairs: Iterable[MinedPair], errors: Errors) -> Translations | None:
    """How many of some pairs, scored by probability with these errors, best first, are translations; None of
    no pairs."""
    others, copies, rest = Spool(np.float32), 0, iter(pairs)
    while some := list(islice(rest, _PAIRS)):
        reasons = copy_reasons([pair.source for pair in some], [pair.target for pair in some])
        scores = [pair.score for pair, reason in zip(some, reasons, strict=True) if reason is None]
        others.write(np.array(scores, np.float32))
        copies += len(some) - len(scores)
    return Translations.among(others.array(), copies, errors) if others.rows + copies else None


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

    return spooled_pairs(kept()), replace(texts, places=places.array())
