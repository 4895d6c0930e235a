"""Micro-batches as an objective takes them; the next one can be made while this one is trained on."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor

from mexma_cli.objectives.base import Masking, PairViews, Rebuilding
from mexma_cli.training.masking import Vocabulary, build_views
from mexma_cli.training.pairs import Pairs


class Batches:
    """Views of the pairs from any position of a run on.

    Args:
        pairs: Where pairs come from. Of a large run they are read from all over the disk, which takes time.
        vocabulary: Ids for building views.
        wanted: What the objective asks for (`Objective.views`).
        seed: Of the masks.
        count: Pairs in a micro-batch.
    """

    def __init__(
        self, pairs: Pairs, vocabulary: Vocabulary, wanted: Masking | Rebuilding | None, seed: int, count: int
    ) -> None:
        self._pairs, self._vocabulary, self._wanted = pairs, vocabulary, wanted
        self._seed, self._count = seed, count
        self._thread = ThreadPoolExecutor(max_workers=1)
        self._ahead: tuple[int, Future[PairViews]] | None = None

    def at(self, start: int, following: int | None = None) -> PairViews:
        """The micro-batch that begins at a position.

        Args:
            following: Where the one begins that will be asked for next, to be made meanwhile.
        """
        ahead, self._ahead = self._ahead, None
        views = ahead[1].result() if ahead and ahead[0] == start else self._views(start)
        if following is not None:
            self._ahead = following, self._thread.submit(self._views, following)
        return views

    def _views(self, start: int) -> PairViews:
        pairs, languages = self._pairs.ids(start, self._count), self._pairs.languages(start, self._count)
        return build_views(pairs, self._wanted, self._vocabulary, self._seed, start, languages)
