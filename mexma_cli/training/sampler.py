"""Which pair comes when: a seeded permutation, computed on the fly.

Position p of the run is always the same pair, in constant memory however many pairs there are, so the
sampler's whole state is one integer.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

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
        rows = np.empty(len(stores), dtype=np.int64)
        for store in np.unique(stores):
            here = stores == store
            size = int(self.sizes[store])
            draws = offsets[here] + epoch * int(self.shares[store])
            rows[here] = permute(draws % size, size, self.seed + 2 * int(store) + 1)
        return rows


def permute(values: np.ndarray, size: int, seed: int) -> np.ndarray:
    """A seeded bijection of [0, size), applied to int64 values: a Feistel network with cycle walking."""
    bits = max(1, (max(size - 1, 1).bit_length() + 1) // 2)
    mask = np.uint64((1 << bits) - 1)
    keys = np.random.Generator(np.random.Philox(key=seed)).integers(0, 2**63, ROUNDS, dtype=np.uint64)
    out = values.astype(np.uint64)
    todo = np.arange(len(out))
    while len(
        todo
    ):  # values that left the range walk on until they are back: a quarter of it or more is inside
        walked = _feistel(out[todo], keys, bits, mask)
        out[todo] = walked
        todo = todo[walked >= np.uint64(size)]
    return out.astype(np.int64)


def _feistel(values: np.ndarray, keys: np.ndarray, bits: int, mask: np.uint64) -> np.ndarray:
    left, right = values >> np.uint64(bits), values & mask
    for key in keys:
        mixed = (right + key) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
        mixed *= np.uint64(0xBF58476D1CE4E5B9)
        left, right = right, left ^ ((mixed >> np.uint64(32)) & mask)
    return (left << np.uint64(bits)) | right
