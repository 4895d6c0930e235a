"""Pairs of prepared stores in the sampler's order, as an objective's micro-batches, one of them ahead."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from mexma_cli.objectives.views import PairViews, TokenPairs
from mexma_cli.store.pairs import ExtraColumn, TokenisedPairs
from mexma_cli.training.sampler import Sampler


class SampledPairs:
    """Positions of a run to pairs.

    Args:
        stores: Prepared corpora with pairs.
        sampler: Over these stores, in this order.

    Attributes:
        source_languages: Codes of the stores' source languages, in the order of the alphabet.
    """

    def __init__(self, stores: Sequence[TokenisedPairs], sampler: Sampler) -> None:
        self._stores, self._sampler = stores, sampler
        self.source_languages = sorted({store.manifest.source_language for store in stores})
        languages = [self.source_languages.index(store.manifest.source_language) for store in stores]
        self._language = np.array(languages, dtype=np.int64)

    def ids(self, start: int, count: int) -> list[tuple[np.ndarray, np.ndarray]]:
        """The pairs at positions start to start + count, as token ids without <s> and </s>."""
        return [self._stores[store].pair(row) for store, row in self._places(start, count)]

    def beside(self, part: ExtraColumn, start: int, count: int) -> list[list[np.ndarray]]:
        """The extra columns of the same pairs, as `TokenisedPairs.beside` gives them."""
        return [self._stores[store].beside(part, row) for store, row in self._places(start, count)]

    def languages(self, start: int, count: int) -> np.ndarray:
        """int64 [count]: which of `source_languages` each of these pairs has."""
        return self._language[self._sampler.pairs(start, count)[0]]

    def names(self, start: int, count: int) -> list[str]:
        """Names of the pairs, by corpus, language and row of its store, such as `tatoeba/spa_Latn:17`."""
        found = [(self._stores[store].manifest, row) for store, row in self._places(start, count)]
        return [f"{manifest.name}/{manifest.source_language}:{row}" for manifest, row in found]

    def _places(self, start: int, count: int) -> list[tuple[int, int]]:
        stores, rows = self._sampler.pairs(start, count)
        return list(zip(stores.tolist(), rows.tolist(), strict=True))


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
