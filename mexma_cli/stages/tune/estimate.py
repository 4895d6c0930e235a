"""A threshold for texts without a gold list, from the scores of their pairs, and from known translations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import xxhash

from mexma_cli.errors import MexmaError
from mexma_cli.knn.exact import Neighbours, VectorSource, knn
from mexma_cli.mining.estimate import (
    FEWEST,
    EstimatedCut,
    PrecisionModel,
    ScoreModel,
    without_pairs,
)
from mexma_cli.mining.margin import means
from mexma_cli.mining.match import Candidates, Means, match
from mexma_cli.mining.restricted import restricted_search
from mexma_cli.stages.knn.row_filter import filter_rows, have_direction
from mexma_cli.stages.mine.documents import DocumentPairs
from mexma_cli.stages.mine.mine import MineSettings, filtered
from mexma_cli.store.comparable import check_comparable
from mexma_cli.store.embeddings import EmbeddingStore, StorePair
from mexma_cli.text.lines import is_blank

_SHARES = (0.25, 0.5, 0.75, 0.9, 0.97)  # of the pairs that are right: the rows of the table
_UNLIKE = 0.1  # distance of two score distributions, beyond chance, from which a sample is of other text


@dataclass(frozen=True)
class Planted:
    """Known translations that were mined together with the texts."""

    scores: np.ndarray
    """float64 [n] of those that came back, falling."""
    pairs: int
    """How many took part."""
    empty: int
    """Left out: one side is empty, or its vector is zero or not a number."""
    repeated: int
    """Left out: one of the two sentences is in an earlier pair."""
    copies: tuple[int, int]
    """Lines of source and target left out, since they are planted sentences."""

    def recall(self, threshold: float) -> tuple[float, float, float]:
        """Share of the planted pairs that come back above a threshold, and its 95 % interval (Wilson's)."""
        found, pairs, z = int((self.scores > threshold).sum()), self.pairs, 1.96
        middle = (found + z * z / 2) / (pairs + z * z)
        half = z / (pairs + z * z) * np.sqrt(found * (pairs - found) / pairs + z * z / 4)
        return found / pairs, max(0.0, float(middle - half)), min(1.0, float(middle + half))

    def unlike(self, model: ScoreModel) -> bool:
        """Whether they score otherwise than the text's own translations, so that recall is not the text's.

        Compared are the scores above the threshold of best F1 (Kolmogorov and Smirnov's test, and somewhat
        more, since the own ones are estimated).
        """
        floor = model.cut(model.choose())
        scores = self.scores[self.scores > floor.threshold]
        if not len(scores) or floor.right < 1:
            return True
        own = (model.count_above(scores) - model.wrong_above(scores)) / floor.right
        by_chance = 1.95 * np.sqrt(1 / len(scores) + 1 / floor.right)
        return bool(np.max(np.abs(own - np.arange(len(scores)) / len(scores))) > by_chance + _UNLIKE)


class _RecallOfPlanted(PrecisionModel):
    """A model's precision, with the recall of planted pairs."""

    def __init__(self, model: PrecisionModel, planted: Planted) -> None:
        self.thresholds, self._model, self._planted = model.thresholds, model, planted

    def probability(self, scores: np.ndarray) -> np.ndarray:
        return self._model.probability(scores)

    def cut(self, threshold: float) -> EstimatedCut:
        found = self._model.cut(threshold)
        recall = self._planted.recall(threshold)[0]
        return replace(found, translations=found.right / recall if recall else found.translations)


@dataclass(frozen=True)
class Rounds:
    """The pairs of two texts, and those that come out when these may not."""

    pairs: Candidates
    second: Candidates
    rows: tuple[int, int]
    """Of both texts, those that take part."""
    planted: Planted | None
    within: bool
    """The pairs are from documents that are paired."""

    def model(self) -> ScoreModel:
        """How many of the pairs are wrong, by score.

        Raises:
            MexmaError: there are too few pairs.
        """
        if min(len(self.pairs), len(self.second)) < FEWEST:
            raise MexmaError(
                f"{len(self.pairs):,} pairs are too few to estimate a threshold from: {FEWEST} are the least",
                "use --gold with a list of true pairs, or read them all",
            )
        return ScoreModel(self.pairs, self.second, self.rows, self.within)


@dataclass(frozen=True)
class Estimation:
    """A threshold as estimated; `steps` are some cuts, highest first, `best` among them."""

    best: EstimatedCut
    steps: list[EstimatedCut]
    pairs: int
    planted: Planted | None
    unlike: bool
    """The planted pairs score otherwise than the text's own."""


def mine_twice(
    source: EmbeddingStore,
    target: EmbeddingStore,
    settings: MineSettings,
    *,
    known: StorePair | None = None,
    documents: DocumentPairs | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> Rounds:
    """Mine two texts as `mine` does, with known translations among their lines if there are some, and again
    without the pairs that came out.

    A line of the texts that equals a planted sentence takes no part: it would compete with its own copy. With
    documents, the planted pairs make up documents of their own, as long as the text's.

    Raises:
        MexmaError: different encoders; known translations that are not aligned; nothing left of a side; or a
            store was made anew meanwhile.
    """
    for other in (target, *(known or ())):
        check_comparable(source, other)
    keep_source, keep_target = filter_rows(source)[0], filter_rows(target)[0]
    sources: tuple[VectorSource, VectorSource] = source, target
    keep_known, planted = np.zeros(0, dtype=bool), None
    if known is not None:
        keep_known, lines, empty, repeated = _pairs_to_plant(*known)
        copies = tuple(map(_drop_copies, (source, target), (keep_source, keep_target), lines))
        sources = _Chained(source, known[0]), _Chained(target, known[1])
    keep = np.append(keep_source, keep_known), np.append(keep_target, keep_known)
    k = settings.k
    nearest = knn(*sources, k + 1, keep_x=keep[0], keep_y=keep[1], on_progress=on_progress)
    if documents is None:
        first = match(nearest.first(k), settings.margin, settings.retrieval)
        second = match(without_pairs(nearest, first, k), settings.margin, settings.retrieval)
    else:
        first, second = _within(sources, nearest, _restriction(documents, (source, target), keep), settings)
    for store in (source, target, *(known or ())):
        store.check_unchanged()
    if known is not None:
        number = first.source - source.rows
        right = (number >= 0) & (number == first.target - target.rows)
        found = first.scores[right].astype(np.float64)
        planted = Planted(found, int(keep_known.sum()), empty, repeated, (copies[0], copies[1]))
    rows = int(keep_source.sum()), int(keep_target.sum())
    first, second = _own(first, source, target), _own(second, source, target)
    if settings.drop_copies or settings.max_score is not None:
        first, second = (filtered(found, source, target, settings)[0] for found in (first, second))
    return Rounds(first, second, rows, planted, documents is not None)


def estimate(rounds: Rounds, model: PrecisionModel, precision: float | None = None) -> Estimation:
    """The threshold of best F1, or the lowest of at least this precision.

    Where planted pairs are like the text's own, recall is theirs; else that of the pairs which stand out.

    Raises:
        MexmaError: no threshold has the precision.
    """
    unlike = rounds.planted is not None and rounds.planted.unlike(rounds.model())
    if rounds.planted is not None and not unlike:
        model = _RecallOfPlanted(model, rounds.planted)
    best = model.cut(model.choose(precision))
    steps = {cut.threshold: cut for cut in (*map(model.cut, model.ladder(_SHARES)), best)}
    table = [steps[threshold] for threshold in sorted(steps, reverse=True)]
    return Estimation(best, table, len(rounds.pairs), rounds.planted, unlike)


def _own(pairs: Candidates, source: EmbeddingStore, target: EmbeddingStore) -> Candidates:
    """Those without a planted sentence."""
    return pairs.take((pairs.source < source.rows) & (pairs.target < target.rows))


def _within(
    sources: tuple[VectorSource, VectorSource],
    nearest: Neighbours,
    restriction: _Restriction,
    settings: MineSettings,
) -> tuple[Candidates, Candidates]:
    """Both rounds of pairs among those of paired documents."""
    wanted = settings.k if settings.retrieval == "all" else 1
    how = settings.margin, settings.retrieval

    def pool(near: Neighbours) -> tuple[Neighbours, Means]:
        own, other = means(near)
        background = own[restriction.twins[0]], other[restriction.twins[1]]
        rows = restriction.documents
        return restricted_search(*sources, rows, wanted + 1, background, settings.margin), background

    near, background = pool(nearest.first(settings.k))
    first = match(near.first(wanted), *how, background=background)
    near, background = pool(without_pairs(nearest, first.mapped(restriction.twins), settings.k))
    return first, match(without_pairs(near, first, wanted), *how, background=background)


@dataclass(frozen=True)
class _Restriction:
    """The rows of paired documents, and for every row the one whose neighbourhood is its own."""

    documents: list[tuple[np.ndarray, np.ndarray]]
    twins: tuple[np.ndarray, np.ndarray]


def _restriction(
    documents: DocumentPairs, stores: StorePair, keep: tuple[np.ndarray, np.ndarray]
) -> _Restriction:
    """Planted pairs, which follow the stores' rows in `keep`, make up documents as long as the text's."""
    rows = stores[0].rows, stores[1].rows
    sides = documents.filter(stores, (keep[0][: rows[0]], keep[1][: rows[1]]))
    pairs = list(documents.rows(sides[0].keep, sides[1].keep))
    planted = [first + np.flatnonzero(kept[first:]) for kept, first in zip(keep, rows, strict=True)]
    length = int(np.median([len(lines) for pair in pairs for lines in pair])) if pairs else 1
    for start in range(0, len(planted[0]), length):
        pairs.append((planted[0][start : start + length], planted[1][start : start + length]))
    twins = (
        np.append(side.twin, np.arange(len(side.twin), len(kept)))
        for side, kept in zip(sides, keep, strict=True)
    )
    return _Restriction(pairs, (next(twins), next(twins)))


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


def _drop_copies(store: EmbeddingStore, keep: np.ndarray, planted: set[bytes]) -> int:
    """Leave out of `keep`, bool [rows], the lines that are planted sentences; how many there are."""
    copies = np.fromiter((_digest(line) in planted for line in store.sentences()), bool, store.rows)
    keep &= ~copies
    if not keep.any():
        raise MexmaError(
            f"{store.manifest.source.path}: nothing is left beside the planted sentences",
            "plant translations into the text that you want to mine",
        )
    return int(copies.sum())


def _digest(sentence: str) -> bytes:
    return xxhash.xxh3_128_digest(sentence.encode("utf-8"))
