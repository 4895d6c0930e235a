"""Where pairs come from: prepared stores, in the sampler's order, each with a name to find it by."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

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
