"""An existing bitext in, the margin score of each of its lines out."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from queue import Queue
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from mexma_cli.classifier.doubts import SAMPLE, Doubt, Doubts, doubts_in_words
from mexma_cli.classifier.features import OfSentences, measured_feature
from mexma_cli.errors import MexmaError
from mexma_cli.files import temporary_space
from mexma_cli.formats.bitext import (
    DEFAULT,
    LANGUAGES_STATED_BY,
    ExplainedPair,
    Pair,
    one_field,
    open_pairs,
)
from mexma_cli.formats.csv import row_lines
from mexma_cli.knn.cosines import directed
from mexma_cli.knn.exact import knn
from mexma_cli.knn.neighbours import Neighbours
from mexma_cli.knn.sides import SearchSide, dots
from mexma_cli.languages import UNSTATED, known
from mexma_cli.mining.candidates import Candidates
from mexma_cli.mining.lists import sides_of
from mexma_cli.mining.margin import MARGINS, means
from mexma_cli.mining.margin import margin as margin_of
from mexma_cli.settings.stages import EncoderChoice, JudgingSettings
from mexma_cli.stages.embed.inputs import Progress, language_of, open_inputs
from mexma_cli.stages.knn.knn import fill_repeated
from mexma_cli.stages.knn.row_filter import filter_rows
from mexma_cli.stages.mine.probable import pair_probabilities
from mexma_cli.stages.mine.texts import KeptTexts
from mexma_cli.store.embeddings import EmbeddingStore, StorePair, check_comparable
from mexma_cli.text.amounts import brief, counted, shortest
from mexma_cli.text.lines import is_blank, label_of, open_text
from mexma_cli.text.writing import Chunk

if TYPE_CHECKING:
    from mexma_cli.encoder.encoder import SentenceEncoder

_BLOCK_BYTES = 16 << 20
_LINES = 1 << 13
_SAME = 1e-6
"""Cosines that differ by less are equal."""
_DOUBTFUL = 0.5
"""Below this probability, what the vectors say against a pair is said, too."""


@dataclass(frozen=True)
class Scored:
    """`scores` float32 [lines] in the order of the lines, nan where there is none; counts of lines."""

    scores: np.ndarray = field(repr=False)
    empty: int
    """Lines with an empty side."""
    unusable: int
    """Other lines with a vector that is zero or not a number."""
    fewest: int | None
    """Sentences on the smaller side of the background; None: no neighbourhoods were needed."""
    probabilities: np.ndarray | None = field(default=None, repr=False)
    """float32 [lines], that a pair is a translation, nan where there is none; None: not asked for."""
    rivals: Rivals | None = field(default=None, repr=False)
    """Beside the probabilities: what the vectors say against a pair."""

    def __len__(self) -> int:
        return len(self.scores)

    def __repr__(self) -> str:
        return f"Scored({counted(len(self), 'line')}, {self.empty:,} with an empty side)"


class Rivals(NamedTuple):
    """The cosines of pairs, and the sentences of other pairs that are nearer.

    Attributes:
        cosines: float32 [lines].
        targets: int64 [lines], the row of a target that is nearer to the source than its own one; -1: none.
        sources: The same for the target.
    """

    cosines: np.ndarray
    targets: np.ndarray
    sources: np.ndarray

    __repr__ = brief

    @classmethod
    def among(cls, near: Neighbours, cosines: np.ndarray) -> Rivals:
        """The nearest sentences of both sides that are nearer than the pair's own."""
        sides = (near.forward_scores, near.forward_ids), (near.backward_scores, near.backward_ids)
        return cls(cosines, *(np.where(s[:, 0] > cosines + _SAME, i[:, 0], -1) for s, i in sides))

    def nearer(self, row: int) -> list[Doubt]:
        """The sentences that are nearer to those of a pair, as reasons against it."""
        target, source = int(self.targets[row]), int(self.sources[row])
        words = [f"the target of pair {target + 1} is nearer to this source"] * (target >= 0)
        words += [f"the source of pair {source + 1} is nearer to this target"] * (source >= 0)
        return list(map(Doubt, words))

    def distance(self, row: int, usual: float) -> Doubt:
        """The reason against a doubtful pair that has no other; `usual`: the cosine of translations."""
        cosine = float(self.cosines[row])
        how = "far apart" if cosine < usual else "near, but so are those of others"
        return Doubt(f"the vectors are {how}: cosine {cosine:.2f}, usually {usual:.2f}")


def score(
    source: EmbeddingStore,
    target: EmbeddingStore,
    settings: JudgingSettings = JudgingSettings(),
    *,
    background: StorePair | None = None,
    probability: bool = False,
    on_progress: Progress | None = None,
) -> Scored:
    """Score row n of the source against row n of the target. Refused: other numbers of rows, and stores of
    different encoders or dimensions.

    A row's neighbourhood is its k nearest sentences on the other side of the `background`, by default the
    bitext itself, where each different sentence counts once, as in `mine`. A pair is scored by its own rows
    even if its sentences occur in other lines, too (LASER's score mode then takes the vectors of wrong rows).
    Without a background, probabilities are found, too, if they are asked for or the settings name a
    classifier.
    """
    probability = probability or settings.classifier is not None
    if source.rows != target.rows:
        raise MexmaError(
            f"{source.label} has {counted(source.rows, 'row')}, {target.label} has {target.rows:,}"
        )
    others = background or (source, target)
    for other in (target, *others):
        check_comparable(source, other)
    empty = np.fromiter(
        (is_blank(a) or is_blank(b) for a, b in zip(source.sentences(), target.sentences(), strict=True)),
        dtype=bool,
        count=source.rows,
    )
    cosines = pair_cosines(source, target)
    unusable = np.isnan(cosines) & ~empty
    wanted = ~(empty | unusable)
    source_mean = target_mean = np.zeros(source.rows, dtype=np.float32)
    fewest: int | None = None
    probabilities, rivals = np.full(source.rows, np.nan, np.float32), None
    if background is None and wanted.any() and (MARGINS[settings.margin].uses_neighbourhoods or probability):
        near, fewest = _nearest((source, target), wanted, settings.k, on_progress)
        source_mean, target_mean = means(near)
        if probability:
            rows = np.flatnonzero(wanted)
            given = Candidates(cosines[rows], rows, rows, cosines[rows])
            probabilities[rows], _ = pair_probabilities(
                (source, target), sides_of(near), given, settings, taken=False
            )
            rivals = Rivals.among(near, cosines)
    elif background is not None and wanted.any():
        source_mean, target_mean, fewest = _in_background(
            (source, target), wanted, background, settings.k, on_progress
        )
    scores = margin_of(cosines, source_mean, target_mean, settings.margin)
    scores[~wanted] = np.nan
    for store in (source, target, *others):
        store.check_unchanged()
    chances = probabilities if probability else None
    return Scored(scores, int(empty.sum()), int(unusable.sum()), fewest, chances, rivals)


def pair_cosines(source: EmbeddingStore, target: EmbeddingStore) -> np.ndarray:
    """Cosine of row n of one with row n of the other, float32 [rows]; nan where a vector has no direction."""
    cosines = np.empty(source.rows, dtype=np.float32)
    step = max(1, _BLOCK_BYTES // (4 * source.dim))
    for start in range(0, source.rows, step):
        stop = min(start + step, source.rows)
        x, y = unit_vectors(source.vectors(start, stop)), unit_vectors(target.vectors(start, stop))
        rows = np.arange(stop - start)
        cosines[start:stop] = dots(x, y, rows, rows)
    return cosines


def unit_vectors(vectors: np.ndarray) -> np.ndarray:
    """Rows of length 1, float32 [n, d], as the search makes them; rows without a direction are nan."""
    usable = directed(vectors)
    unit = np.full_like(vectors, np.nan)
    unit[usable] = SearchSide(vectors, usable).unit_vectors(0, len(vectors))
    return unit


def _sentences_of(pair: StorePair) -> tuple[np.ndarray, np.ndarray]:
    """Which rows of both sides neighbourhoods are made of, bool [rows] each."""
    keeps = filter_rows(pair[0])[0], filter_rows(pair[1])[0]
    for store, keep in zip(pair, keeps, strict=True):
        if not keep.any():
            raise MexmaError(f"{store.manifest.source.path} has no sentence to make a neighbourhood of")
    return keeps


def _nearest(
    pair: StorePair, wanted: np.ndarray, k: int, on_progress: Progress | None
) -> tuple[Neighbours, int]:
    """The neighbours of the wanted rows of both sides, and the number of sentences on the smaller side."""
    keeps = _sentences_of(pair)
    both = knn(*pair, k, keep_x=keeps[0], keep_y=keeps[1], on_progress=on_progress)
    arrays = (both.forward_scores, both.forward_ids), (both.backward_scores, both.backward_ids)
    for side, found in enumerate(arrays):
        fill_repeated(*found, pair[side], pair[1 - side], wanted & ~keeps[side], keeps[1 - side], k)
    return both, int(min(keeps[0].sum(), keeps[1].sum()))


def _in_background(
    pair: StorePair, wanted: np.ndarray, background: StorePair, k: int, on_progress: Progress | None
) -> tuple[np.ndarray, np.ndarray, int]:
    """Mean cosines of the neighbourhoods of the wanted rows of both sides, float32 [rows] each, and the
    number of sentences on the background's smaller side."""
    keeps = _sentences_of(background)
    passes = [
        knn(own, background[1 - side], k, keep_x=wanted, keep_y=keeps[1 - side], on_progress=on_progress)
        for side, own in enumerate(pair)
    ]
    return means(passes[0])[0], means(passes[1])[0], int(min(keeps[0].sum(), keeps[1].sum()))


def scored_lines(
    source: EmbeddingStore,
    target: EmbeddingStore,
    scored: Scored,
    scores_only: bool = False,
    format: str = DEFAULT,
    explain: bool = False,
    own: Mapping[str, OfSentences] = MappingProxyType({}),
) -> Iterator[Chunk]:
    """For `text.writing.write_chunks`: `score TAB source TAB target` for each line, and TAB probability if it
    is known, TAB why the pair may be no translation (`explain`), and features of the user's `own`; the scores
    alone; or the like in another format (`format`, one of `formats.csv.ROWS`)."""
    scores = shortest(scored.scores)
    if scores_only:
        yield from (((f"{value}\n",), 0) for value in scores)
        return
    more: list[Iterable[Any]] = [] if scored.probabilities is None else [shortest(scored.probabilities)]
    if explain:
        more.append(_reasons(source, target, scored))
    names = [*ExplainedPair._fields[: 3 + len(more)], *own]
    more += [shortest(values) for values in _own_values(source, target, own)]
    rows = zip(scores, source.sentences(), target.sentences(), *more, strict=True)
    yield from row_lines(rows, names, format)


def _own_values(
    source: EmbeddingStore, target: EmbeddingStore, own: Mapping[str, OfSentences]
) -> list[np.ndarray]:
    """The values of the user's own features, float32 [lines] each."""
    languages = source.manifest.language, target.manifest.language
    found: list[list[np.ndarray]] = [[] for _ in own]
    both = zip(source.sentences(), target.sentences(), strict=True)
    while own and (block := list(islice(both, _LINES))):
        sides = [one for one, _ in block], [other for _, other in block]
        for values, (name, function) in zip(found, own.items(), strict=True):
            values.append(measured_feature(name, function, *sides, languages))
    return [np.concatenate(values) for values in found]


def _reasons(source: EmbeddingStore, target: EmbeddingStore, scored: Scored) -> Iterator[str]:
    """Why each pair may be no translation, compared with what the most probable ones have in common."""
    found = scored.scores if scored.probabilities is None else scored.probabilities
    best = np.sort(np.argsort(np.where(np.isnan(found), np.inf, -found), kind="stable")[:SAMPLE])
    sides = [KeptTexts(store.sentences(), best).take(best) for store in (source, target)]
    of_texts = map(Doubts.usual(list(zip(*sides, strict=True))).of, source.sentences(), target.sentences())
    if scored.rivals is None:
        yield from map(doubts_in_words, of_texts)
        return
    probable = best[found[best] >= _DOUBTFUL]
    usual = float(np.nanmedian(scored.rivals.cosines[probable if len(probable) else best]))
    for row, (doubts, doubtful) in enumerate(zip(of_texts, found < _DOUBTFUL, strict=True)):
        if doubtful:
            doubts += scored.rivals.nearer(row)
        yield doubts_in_words(doubts or [scored.rivals.distance(row, usual)] if doubtful else doubts)


def open_bitext(
    stack: ExitStack,
    bitext: Sequence[Path],
    background: Sequence[Path],
    encoder: EncoderChoice | SentenceEncoder,
    on_progress: Progress | None = None,
    languages: tuple[str, str] = (UNSTATED, UNSTATED),
    each_line: bool = False,
) -> list[EmbeddingStore]:
    """Both sides of a bitext (two stores or texts, or a file of pairs, whose sides become temporary texts),
    and both of the background if there is one, until the stack is closed. Languages are FLORES-200 codes, of
    one file as the user wrote them; `each_line` as of `split_sides`."""
    paths, labels = [*bitext, *background], [label_of(path) for path in (*bitext, *background)]
    if len(bitext) == 1:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mexma-")))
        sides = [folder / "source", folder / "target"]
        with temporary_space():
            languages = split_sides(paths[0], sides, languages, each_line)
        paths[:1] = sides
        labels[:1] = [f"{labels[0]} ({side.name})" for side in sides]
    spoken = *languages, *map(language_of, background, languages)
    return open_inputs(
        stack, paths, encoder, labels=labels, languages=spoken, aligned=True, on_progress=on_progress
    )


def split_sides(
    path: Path,
    sides: Sequence[Path],
    languages: tuple[str, str] = (UNSTATED, UNSTATED),
    each_line: bool = False,
) -> tuple[str, str]:
    """Write the two sides of a file of pairs (``-``: stdin), with or without scores, of any format that is
    read, as texts; with `each_line`, a line that is no pair has two empty sides. Takes codes as the user
    wrote them, as far as they are stated, and returns FLORES-200 codes, those that the file states among
    them."""
    pair = None
    bitext = open_pairs(path, languages=languages, options=LANGUAGES_STATED_BY, each_line=each_line)
    with open_text(sides[0]) as first, open_text(sides[1]) as second:
        for pair in bitext.pairs:
            first.write(f"{one_field(pair.source)}\n")
            second.write(f"{one_field(pair.target)}\n")
    if pair is None:
        raise MexmaError(f"{label_of(path)} has no pairs", "each line must be: source TAB target")
    return known(bitext.languages[0]), known(bitext.languages[1])


_BATCH = 1024


def streamed_scores(
    path: Path, encoder: SentenceEncoder, margin: str, languages: tuple[str, str]
) -> Iterator[np.ndarray]:
    """The scores of the pairs of a file or of stdin (``-``), as soon as the pairs can be read: float32 [lines
    that were there], again and again; nan for a line that is no pair, or of which a side is empty. The margin
    is one without neighbourhoods."""
    bitext = open_pairs(path, languages=languages, options=LANGUAGES_STATED_BY, each_line=True)
    for batch in _there(bitext.pairs):
        scores = np.full(len(batch), np.nan, dtype=np.float32)
        whole = [
            row for row, pair in enumerate(batch) if not (is_blank(pair.source) or is_blank(pair.target))
        ]
        if whole:
            x, y = (
                unit_vectors(
                    _stored(encoder, language, [one_field(getattr(batch[row], side)) for row in whole])
                )
                for side, language in zip(("source", "target"), bitext.languages, strict=True)
            )
            rows, none = np.arange(len(whole)), np.zeros(len(whole), dtype=np.float32)
            scores[whole] = margin_of(dots(x, y, rows, rows), none, none, margin)
        yield scores


def _stored(encoder: SentenceEncoder, language: str, sentences: list[str]) -> np.ndarray:
    """Vectors as a store gives them back, so that scores are those of two files."""
    encoder.set_language(known(language))
    return encoder.embed(sentences).astype(np.float16).astype(np.float32)


def _there(pairs: Iterator[Pair]) -> Iterator[list[Pair]]:
    """The pairs that could be read until now, at least one and not too many, in turns."""
    read: Queue[Pair | MexmaError | None] = Queue(4 * _BATCH)

    def reading() -> None:
        try:
            for pair in pairs:
                read.put(pair)
            read.put(None)
        except MexmaError as error:
            read.put(error)

    threading.Thread(target=reading, daemon=True).start()
    while True:
        found = read.get()
        batch: list[Pair] = []
        while isinstance(found, tuple):
            batch.append(found)
            if len(batch) == _BATCH or read.empty():
                break
            found = read.get()
        if batch:
            yield batch
        if isinstance(found, MexmaError):
            raise found
        if found is None:
            return
