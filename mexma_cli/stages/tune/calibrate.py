"""Calibration from planted pairs: a threshold for texts without a gold list.

Known translations are mined together with the texts, and the threshold is chosen by which of them come back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import xxhash

from mexma_cli.errors import MexmaError
from mexma_cli.knn.exact import VectorSource, knn
from mexma_cli.mining.calibration import CalibratedThreshold, CalibrationCurve, PlantedScores, held_out
from mexma_cli.mining.match import Candidates, match
from mexma_cli.mining.resampling import Intervals
from mexma_cli.stages.knn.row_filter import filter_rows, have_direction
from mexma_cli.store.comparable import check_comparable
from mexma_cli.store.embeddings import EmbeddingStore, StorePair
from mexma_cli.text.lines import is_blank

_SHARES = (0.25, 0.5, 0.75, 0.9, 1.0)  # of the planted pairs that came back: the rows of the table


@dataclass(frozen=True)
class Calibration:
    """A threshold from planted pairs; `steps` are some cuts, highest first, `best` among them."""

    best: CalibratedThreshold
    steps: list[CalibratedThreshold]
    intervals: Intervals
    held_out: CalibratedThreshold | None
    """None: too few pairs were planted, or came back, for two halves."""
    scores: PlantedScores
    empty: int
    """Planted pairs left out: one side is empty, or its vector is zero or not a number."""
    repeated: int
    """Planted pairs left out: one of the two sentences is in an earlier one."""
    copies: tuple[int, int]
    """Lines of source and target left out, since they are planted sentences."""


def calibrate(
    source: EmbeddingStore,
    target: EmbeddingStore,
    known: StorePair,
    *,
    margin: str = "ratio",
    k: int = 4,
    retrieval: str = "max",
    precision: float | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> Calibration:
    """Mine two texts with known translations planted among their lines, and choose a threshold by these.

    Recall is the share of the planted pairs that come back above a threshold. Which of the text's own pairs
    are right nobody knows; `mining.calibration.CalibrationCurve` says how their precision is estimated. (The
    precision on the pairs that have a planted sentence is far too high for a text few lines of which have a
    translation: nearly all of its wrong pairs are of the other lines.)

    A line of the texts that equals a planted sentence takes no part: it would compete with its own copy. So
    no planted pair is lost by it; but if a paraphrase of it, or another good translation, is in the text and
    nearer, that counts as wrong.

    Args:
        known: line n of one is the translation of line n of the other.
        margin, k, retrieval: as for `stages.mine.mine`.
        precision: choose the loosest threshold with this precision; None: the one with the best F1.

    Raises:
        MexmaError: different encoders; known translations that are not aligned; nothing left of a side; a
            store was made anew meanwhile; too few planted pairs came back; or no threshold has the precision.
    """
    for other in (target, *known):
        check_comparable(source, other)
    keep_known, lines, empty, repeated = _pairs_to_plant(*known)
    keep_source, source_copies = _without_copies(source, lines[0])
    keep_target, target_copies = _without_copies(target, lines[1])
    neighbours = knn(
        _Chained(source, known[0]),
        _Chained(target, known[1]),
        k,
        keep_x=np.append(keep_source, keep_known),
        keep_y=np.append(keep_target, keep_known),
        on_progress=on_progress,
    )
    for store in (source, target, *known):
        store.check_unchanged()
    scores = _sorted_out(match(neighbours, margin, retrieval), source.rows, target.rows, keep_known)
    del neighbours
    if not len(scores.right):
        raise _none_came_back(scores.planted, *known)
    curve = CalibrationCurve(scores)
    best = curve.choose(precision)
    return Calibration(
        best=curve.cut(best),
        steps=[curve.cut(place) for place in sorted({best, *curve.ladder(_SHARES)})],
        intervals=curve.bootstrap(best, precision),
        held_out=held_out(scores, precision),
        scores=scores,
        empty=empty,
        repeated=repeated,
        copies=(source_copies, target_copies),
    )


def _none_came_back(planted: int, source: EmbeddingStore, target: EmbeddingStore) -> MexmaError:
    return MexmaError(
        f"none of the {planted:,} planted pairs came back",
        f"is line n of {target.manifest.source.path} the translation of line n of "
        f"{source.manifest.source.path}, and are both in the languages of the texts?",
    )


class _Chained:
    """The rows of one source after those of another, read block by block from where they are."""

    def __init__(self, first: VectorSource, second: VectorSource) -> None:
        self._first, self._second = first, second
        self.rows, self.dim = first.rows + second.rows, first.dim

    def vectors(self, start: int, stop: int) -> np.ndarray:
        border = self._first.rows
        if stop <= border:
            return self._first.vectors(start, stop)
        if start >= border:
            return self._second.vectors(start - border, stop - border)
        return np.concatenate([self._first.vectors(start, border), self._second.vectors(0, stop - border)])


def _pairs_to_plant(
    source: EmbeddingStore, target: EmbeddingStore
) -> tuple[np.ndarray, tuple[set[bytes], set[bytes]], int, int]:
    """(bool [rows], the digests of both sides' sentences; pairs left out as empty and as repeated)."""
    if source.rows != target.rows:
        names = [store.manifest.source.path for store in (source, target)]
        raise MexmaError(
            f"{names[0]} has {source.rows:,} lines, {names[1]} has {target.rows:,}",
            "line n of one must be the translation of line n of the other",
        )
    have_vectors = have_direction(source) & have_direction(target)
    keep, lines, repeated = np.zeros(source.rows, dtype=bool), (set[bytes](), set[bytes]()), 0
    for row, pair in enumerate(zip(source.sentences(), target.sentences(), strict=True)):
        if not have_vectors[row] or is_blank(pair[0]) or is_blank(pair[1]):
            continue
        digests = [_digest(sentence) for sentence in pair]
        if digests[0] in lines[0] or digests[1] in lines[1]:
            repeated += 1
            continue
        keep[row] = True
        lines[0].add(digests[0])
        lines[1].add(digests[1])
    kept = int(keep.sum())
    if not kept:
        raise MexmaError(f"{source.manifest.source.path}: no pair to plant; all are empty or have no vector")
    return keep, lines, source.rows - kept - repeated, repeated


def _without_copies(store: EmbeddingStore, planted: set[bytes]) -> tuple[np.ndarray, int]:
    """(bool [rows], the rows that take part and are no planted sentence; how many are one)."""
    keep, _ = filter_rows(store)
    copies = np.fromiter((_digest(line) in planted for line in store.sentences()), bool, store.rows)
    keep &= ~copies
    if not keep.any():
        raise MexmaError(
            f"{store.manifest.source.path}: nothing is left beside the planted sentences",
            "plant translations into the text that you want to mine",
        )
    return keep, int(copies.sum())


def _digest(sentence: str) -> bytes:
    return xxhash.xxh3_128_digest(sentence.encode("utf-8"))


def _sorted_out(mined: Candidates, sources: int, targets: int, kept: np.ndarray) -> PlantedScores:
    """The scores of mined pairs by kind: planted and right, with a planted sentence and wrong, and others.

    Args:
        sources, targets: rows from these on are planted.
        kept: bool, which of the planted rows take part.
    """
    number = np.cumsum(kept) - 1
    source, target = mined.source - sources, mined.target - targets  # below 0: not planted
    planted = (source >= 0) | (target >= 0)
    right = planted & (source == target)
    wrong = planted & ~right
    scores = mined.scores.astype(np.float64)
    return PlantedScores(
        right=scores[right],
        right_of=number[source[right]],
        wrong=scores[wrong],
        wrong_of=number[np.where(source >= 0, source, target)[wrong]],
        others=scores[~planted],
        planted=int(kept.sum()),
    )
