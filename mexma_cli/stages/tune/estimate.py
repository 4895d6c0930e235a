"""A threshold for texts without a gold list, from the scores of their pairs, and from known translations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from mexma_cli.errors import MexmaError
from mexma_cli.knn.exact import knn
from mexma_cli.knn.neighbours import Neighbours
from mexma_cli.knn.sides import VectorSource
from mexma_cli.mining.candidates import Candidates, PairSpool
from mexma_cli.mining.estimate import (
    FEWEST,
    EstimatedCut,
    PrecisionModel,
    ScoreModel,
)
from mexma_cli.mining.lists import Sides, first_of, means_of, sides_of, slices, without_pairs
from mexma_cli.mining.match import Means, match
from mexma_cli.mining.restricted import restricted_search
from mexma_cli.stages.knn.row_filter import filter_rows
from mexma_cli.stages.mine.documents import DocumentPairs
from mexma_cli.stages.mine.mine import KnownLists, MineSettings, filtered, within_scores
from mexma_cli.stages.tune.planted import (
    Chained,
    LeftOut,
    Planted,
    came_back,
    drop_copies,
    lines_of,
    pairs_to_plant,
    with_planted,
)
from mexma_cli.store.embeddings import EmbeddingStore, StorePair, check_comparable

_SHARES = (0.25, 0.5, 0.75, 0.9, 0.97)  # of the pairs that are right: the rows of the table


class _RecallOfPlanted(PrecisionModel):
    """A model's precision, with the recall of planted pairs."""

    def __init__(self, model: PrecisionModel, planted: Planted) -> None:
        self.thresholds, self._model, self._planted = model.thresholds, model, planted

    def probability(self, scores: np.ndarray) -> np.ndarray:
        return self._model.probability(scores)

    def cut(self, threshold: float) -> EstimatedCut:
        found = self._model.cut(threshold)
        recall = self._planted.recall(threshold)
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
    recall_interval: tuple[float, float] | None
    """Of the planted pairs; None if there are none, or they score otherwise than the text's own."""

    @property
    def unlike(self) -> bool:
        """Whether there are planted pairs that score otherwise than the text's own."""
        return self.planted is not None and self.recall_interval is None


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
    keep_known, left_out = np.zeros(0, dtype=bool), LeftOut()
    if known is not None:
        keep_known, lines, left_out = pairs_to_plant(*known)
        copies = tuple(map(drop_copies, (source, target), (keep_source, keep_target), lines))
        left_out = replace(left_out, copies=(copies[0], copies[1]))
        sources = Chained(source, known[0]), Chained(target, known[1])
    keep = np.append(keep_source, keep_known), np.append(keep_target, keep_known)
    k = settings.k
    nearest = knn(*sources, k + 1, keep_x=keep[0], keep_y=keep[1], on_progress=on_progress)
    if documents is None:
        first, second = _twice(sides_of(nearest), settings)
    else:
        first, second = _within(
            sources, sides_of(nearest), _restriction(documents, (source, target), keep), settings
        )
    for store in (source, target, *(known or ())):
        store.check_unchanged()
    rows = source.rows, target.rows
    planted = None if known is None else came_back(first, rows, int(keep_known.sum()), left_out)
    kept = int(keep_source.sum()), int(keep_target.sum())
    return Rounds(*_own((first, second), (source, target), settings), kept, planted, documents is not None)


def mine_twice_with(
    stores: StorePair, neighbours: KnownLists, settings: MineSettings, *, known: StorePair | None = None
) -> Rounds:
    """As `mine_twice`, where the k + 1 nearest neighbours of the texts are known. Whatever is as long as a
    text is in temporary files, but for a bit a row.

    Known translations are searched in the texts and the texts in them, which is little. Those of which a side
    is a line of the texts take no part, since the texts' neighbours are as they are.

    Raises:
        MexmaError: different encoders, known translations that are not aligned, or none is left; or the
            temporary disk is full.
    """
    for other in (stores[1], *(known or ())):
        check_comparable(stores[0], other)
    lists, planted, rows = neighbours.sides, None, (stores[0].rows, stores[1].rows)
    if known is not None:
        keep_known, _, left_out = pairs_to_plant(*known)
        copies = [lines_of(store, of) for store, of in zip(known, stores, strict=True)]
        again = keep_known & (copies[0] | copies[1])
        keep_known &= ~again
        left_out = replace(left_out, repeated=left_out.repeated + int(again.sum()))
        if not keep_known.any():
            raise MexmaError(f"{known[0].manifest.source.path}: all of its pairs are lines of the texts")
        lists = with_planted(stores, known, lists, keep_known, settings.k + 1)
    first, second = _twice(lists, settings)
    if known is not None:
        planted = came_back(first, rows, int(keep_known.sum()), left_out)
    kept = neighbours.counts[0].kept, neighbours.counts[1].kept
    return Rounds(*_own((first, second), stores, settings), kept, planted, False)


def _twice(nearest: Sides, settings: MineSettings) -> tuple[Candidates, Candidates]:
    """Both rounds of pairs."""
    how = settings.margin, settings.retrieval
    first = match(first_of(nearest, settings.k), *how)
    return first, match(without_pairs(nearest, first, settings.k), *how)


def estimate(rounds: Rounds | None, model: PrecisionModel, precision: float | None = None) -> Estimation:
    """The threshold of best F1, or the lowest of at least this precision.

    Args:
        rounds: None: the pairs were scored by probability, and nothing was planted.

    Where planted pairs are like the text's own, recall is theirs; else that of the pairs which stand out.

    Raises:
        MexmaError: no threshold has the precision.
    """
    planted, compared = rounds.planted if rounds is not None else None, None
    if (
        rounds is not None
        and planted is not None
        and not (compared := planted.compared(rounds.model())).unlike
    ):
        model = _RecallOfPlanted(model, planted)
    best = model.cut(model.choose(precision))
    steps = {cut.threshold: cut for cut in (*map(model.cut, model.ladder(_SHARES)), best)}
    table = [steps[threshold] for threshold in sorted(steps, reverse=True)]
    interval = None
    if planted is not None and compared is not None and not compared.unlike:
        interval = compared.recall_interval(planted, best.threshold, best.translations)
    return Estimation(best, table, model.cut(-np.inf).count, planted, interval)


def _own(
    rounds: tuple[Candidates, Candidates], stores: StorePair, settings: MineSettings
) -> tuple[Candidates, Candidates]:
    """Pairs without a planted sentence that pass the filters."""
    source, target = stores

    def own(pairs: Candidates) -> Candidates:
        found = PairSpool()
        for part in slices(len(pairs)):
            some = pairs.take(part)
            found.write(some.take((some.source < source.rows) & (some.target < target.rows)))
        pairs = found.pairs()
        if settings.drop_copies:
            return filtered(pairs, stores, settings)[0]
        return within_scores(pairs, settings, {})

    return own(rounds[0]), own(rounds[1])


def _within(
    sources: tuple[VectorSource, VectorSource],
    nearest: Sides,
    restriction: _Restriction,
    settings: MineSettings,
) -> tuple[Candidates, Candidates]:
    """Both rounds of pairs among those of paired documents."""
    wanted = settings.k if settings.retrieval == "all" else 1
    how = settings.margin, settings.retrieval

    def pool(near: Sides) -> tuple[Neighbours, Means]:
        own, other = (means_of(side)[twin] for side, twin in zip(near, restriction.twins, strict=True))
        background = own, other
        rows = restriction.documents
        return restricted_search(*sources, rows, wanted + 1, background, settings.margin), background

    near, background = pool(first_of(nearest, settings.k))
    first = match(first_of(near, wanted), *how, background=background)
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
