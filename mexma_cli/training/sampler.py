"""Which pair comes when (a seeded permutation, computed on the fly), and pairs as micro-batches, one ahead.

Position p of the run is always the same pair, in constant memory however many pairs there are, so the
sampler's whole state is one integer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from mexma_cli.objectives.views import PairViews, TokenPairs
from mexma_cli.store.pairs import ExtraColumn, TokenisedPairs

ROUNDS = 6


class Sampler:
    """Positions to pairs, over several stores with weights.

    An epoch holds `sum(size * weight)` positions (after the temperature); every pair of a store with
    weight 1 is in it once. Pairs of a store with a smaller share are all seen over several epochs.

    Args:
        sizes: Pairs in each store.
        weights: How often a pair of each store is seen against the others.
        groups: Languages of the stores; the temperature flattens the shares of these.
        temperature: Shares are proportional to pairs ** (1 / temperature).
    """

    def __init__(
        self,
        sizes: Sequence[int],
        weights: Sequence[float],
        groups: Sequence[str],
        temperature: float = 1.0,
        seed: int = 42,
    ) -> None:
        self.sizes = np.asarray(sizes, dtype=np.int64)
        assert len(self.sizes) and self.sizes.min() > 0, "a sampler needs pairs"
        self.seed = seed
        wanted = self.sizes * np.asarray(weights, dtype=np.float64)
        names = np.asarray(groups)
        totals = {group: wanted[names == group].sum() for group in set(groups)}
        flat = np.array([wanted[i] * totals[g] ** (1 / temperature - 1) for i, g in enumerate(groups)])
        shares = np.maximum(1, np.round(flat * wanted.sum() / flat.sum())).astype(np.int64)
        self.shares = shares
        self.ends = np.cumsum(shares)
        self._bits = np.array([_half_bits(int(size)) for size in self.sizes], dtype=np.uint64)
        self._keys = np.stack([_keys(seed + 2 * store + 1) for store in range(len(self.sizes))], axis=1)

    @property
    def epoch_length(self) -> int:
        """Positions before every pair (at weight 1) was seen."""
        return int(self.ends[-1])

    def pairs(self, start: int, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Store and row, int64 [count] each, of positions start to start + count."""
        positions = np.arange(start, start + count, dtype=np.int64)
        epochs, within = np.divmod(positions, self.epoch_length)
        stores, rows = np.empty(count, dtype=np.int64), np.empty(count, dtype=np.int64)
        for epoch in np.unique(epochs):
            here = epochs == epoch
            shuffled = permute(within[here], self.epoch_length, self.seed + 2 * int(epoch))
            store = np.searchsorted(self.ends, shuffled, side="right")
            stores[here] = store
            rows[here] = self._rows(store, shuffled - (self.ends - self.shares)[store], int(epoch))
        return stores, rows

    def _rows(self, stores: np.ndarray, offsets: np.ndarray, epoch: int) -> np.ndarray:
        """The row for the n-th draw of a store: its own permutation, gone through from epoch to epoch."""
        sizes = self.sizes[stores]
        draws = (offsets + epoch * self.shares[stores]) % sizes
        return _walked(draws, sizes, self._bits[stores], self._keys[:, stores])


def permute(values: np.ndarray, size: int, seed: int) -> np.ndarray:
    """A seeded bijection of [0, size), applied to int64 values: a Feistel network with cycle walking."""
    count = len(values)
    keys = np.broadcast_to(_keys(seed)[:, None], (ROUNDS, count))
    return _walked(values, np.full(count, size), np.full(count, _half_bits(size), dtype=np.uint64), keys)


def _keys(seed: int) -> np.ndarray:
    return np.random.Generator(np.random.Philox(key=seed)).integers(0, 2**63, ROUNDS, dtype=np.uint64)


def _half_bits(size: int) -> int:
    return max(1, (max(size - 1, 1).bit_length() + 1) // 2)


def _walked(values: np.ndarray, sizes: np.ndarray, bits: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """Apply `permute` to N values, int64 [N] as their sizes, each by a permutation of its own: uint64 [N],
    half the bits of each size, and keys, uint64 [ROUNDS, N]."""
    out, limits = values.astype(np.uint64), sizes.astype(np.uint64)
    todo = np.arange(len(out))
    while len(todo):  # what left its range walks on until it is back: a quarter of it or more is inside
        out[todo] = _feistel(out[todo], keys[:, todo], bits[todo])
        todo = todo[out[todo] >= limits[todo]]
    return out.astype(np.int64)


def _feistel(values: np.ndarray, keys: np.ndarray, bits: np.ndarray) -> np.ndarray:
    mask = (np.uint64(1) << bits) - np.uint64(1)
    left, right = values >> bits, values & mask
    for key in keys:
        mixed = (right + key) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
        mixed *= np.uint64(0xBF58476D1CE4E5B9)
        left, right = right, left ^ ((mixed >> np.uint64(32)) & mask)
    return (left << bits) | right


class SampledPairs:
    """Positions of a run to pairs of prepared corpora, by a sampler over these in their order.
    `source_languages` are their codes, in the order of the alphabet."""

    def __init__(self, stores: Sequence[TokenisedPairs], sampler: Sampler) -> None:
        self._stores, self._sampler = stores, sampler
        self.source_languages = sorted({store.manifest.source_language for store in stores})
        languages = [self.source_languages.index(store.manifest.source_language) for store in stores]
        self._language = np.array(languages, dtype=np.int64)

    def ids(self, start: int, count: int) -> list[tuple[np.ndarray, np.ndarray]]:
        """The pairs at positions start to start + count, as token ids without <s> and </s>."""
        return [self._stores[store].pair(row) for store, row in self._places(start, count)]

    def extra(self, column: ExtraColumn, start: int, count: int) -> list[list[np.ndarray]]:
        """The sentences of the same pairs in an extra column, as `TokenisedPairs.extra` gives them."""
        return [self._stores[store].extra(column, row) for store, row in self._places(start, count)]

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
        extra: The extra columns that a batch has.
    """

    def __init__(
        self,
        pairs: SampledPairs,
        make: Callable[[TokenPairs], PairViews],
        seed: int,
        count: int,
        extra: Sequence[ExtraColumn] = (),
    ) -> None:
        self._pairs, self._make, self._seed, self._count = pairs, make, seed, count
        self._extra = extra
        self._thread = ThreadPoolExecutor(max_workers=1)
        self._ahead: tuple[int, Future[PairViews]] | None = None

    def at(self, start: int, following: int | None = None) -> PairViews:
        """The micro-batch that begins at a position; `following` is where the one begins that will be asked
        for next, to be made meanwhile."""
        ahead, self._ahead = self._ahead, None
        views = ahead[1].result() if ahead and ahead[0] == start else self._made(start)
        if following is not None:
            self._ahead = following, self._thread.submit(self._made, following)
        return views

    def _made(self, start: int) -> PairViews:
        ids, languages = self._pairs.ids(start, self._count), self._pairs.languages(start, self._count)
        extra = {column: self._pairs.extra(column, start, self._count) for column in self._extra}
        return self._make(TokenPairs(ids, self._seed, start, languages, extra))
