"""Micro-batches as an objective takes them; the next one can be made while this one is trained on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from mexma_cli.objectives.views import PairViews, TokenPairs
from mexma_cli.store.pairs import ExtraColumn
from mexma_cli.training.pairs import SampledPairs


class Batches:
    """Batches of the pairs from any position of a run on.

    Args:
        pairs: Where pairs come from. Of a large run they are read from all over the disk, which takes time.
        make: From pairs to a batch (`Objective.batch`).
        seed: Of everything random about them.
        count: Pairs in a micro-batch.
        beside: What is to be there beside the pairs.
    """

    def __init__(
        self,
        pairs: SampledPairs,
        make: Callable[[TokenPairs], PairViews],
        seed: int,
        count: int,
        beside: Sequence[ExtraColumn] = (),
    ) -> None:
        self._pairs, self._make, self._seed, self._count = pairs, make, seed, count
        self._beside = beside
        self._thread = ThreadPoolExecutor(max_workers=1)
        self._ahead: tuple[int, Future[PairViews]] | None = None

    def at(self, start: int, following: int | None = None) -> PairViews:
        """The micro-batch that begins at a position.

        Args:
            following: Where the one begins that will be asked for next, to be made meanwhile.
        """
        ahead, self._ahead = self._ahead, None
        views = ahead[1].result() if ahead and ahead[0] == start else self._made(start)
        if following is not None:
            self._ahead = following, self._thread.submit(self._made, following)
        return views

    def _made(self, start: int) -> PairViews:
        ids, languages = self._pairs.ids(start, self._count), self._pairs.languages(start, self._count)
        beside = {part: self._pairs.beside(part, start, self._count) for part in self._beside}
        return self._make(TokenPairs(ids, self._seed, start, languages, beside))
