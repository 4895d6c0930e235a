"""Translations by their stored vectors, in an order that is computed on the fly, in constant memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from mexma_cli.objectives.decomposer import VectorPairs
from mexma_cli.store.embeddings import StorePair
from mexma_cli.training.sampler import permute

_HELD_OUT = 1 << 40  # apart from all seeds of epochs and stores


class StoredPairs:
    """Pairs of stores, each cut at random into what is trained on and what is held out.

    Rows are read one by one from the stores' files when their turn comes; nothing of the stores is kept.

    Args:
        stores: Source and target, row n of one the translation of row n of the other.
        rows: Of each the first so many (0: all).
        validation: Share of each that is held out, at least one pair.
        seed: Of the cut and of the order.

    Attributes:
        languages: All of both sides, sorted: a number in a batch is a place here.
        trained, held_out: How many pairs there are of either kind.
        dim: Numbers in a vector.
    """

    def __init__(self, stores: Sequence[StorePair], rows: int, validation: float, seed: int) -> None:
        self._stores, self._seed = stores, seed
        self.dim = stores[0][0].dim
        self.languages = sorted({store.manifest.language for pair in stores for store in pair})
        number = {language: place for place, language in enumerate(self.languages)}
        self._codes = [tuple(number[store.manifest.language] for store in pair) for pair in stores]
        self._sizes = np.array([min(source.rows, rows or source.rows) for source, _ in stores])
        held = np.clip(np.round(self._sizes * validation).astype(np.int64), 1, None)
        self._held_ends, self._trained_ends = np.cumsum(held), np.cumsum(self._sizes - held)
        self._first_held = self._sizes - held

    @property
    def trained(self) -> int:
        """Pairs to train on."""
        return int(self._trained_ends[-1])

    @property
    def held_out(self) -> int:
        """Pairs to validate on."""
        return int(self._held_ends[-1])

    def training(self, epoch: int, start: int, stop: int) -> VectorPairs:
        """Pairs `start` to `stop` of an epoch, from 0, in its own order over all stores."""
        order = permute(np.arange(start, stop), self.trained, self._seed + 2 * epoch)
        pair = np.searchsorted(self._trained_ends, order, side="right")
        return self._read(pair, order - np.concatenate([[0], self._trained_ends])[pair])

    def validation(self, start: int, stop: int) -> VectorPairs:
        """Pairs `start` to `stop` of what is held out, always in the same order over all stores."""
        order = permute(np.arange(start, stop), self.held_out, self._seed + _HELD_OUT)
        pair = np.searchsorted(self._held_ends, order, side="right")
        places = order - np.concatenate([[0], self._held_ends])[pair]
        return self._read(pair, places + self._first_held[pair])

    def _read(self, pair: np.ndarray, places: np.ndarray) -> VectorPairs:
        """Pairs by the number of their stores and their place in the order of these.

        Args:
            pair, places: int64 [B].
        """
        vectors = np.empty((2, len(pair), self.dim), dtype=np.float32)
        codes = np.empty((2, len(pair)), dtype=np.int64)
        for index in np.unique(pair):
            here = pair == index
            rows = permute(places[here], int(self._sizes[index]), self._seed + 2 * int(index) + 1)
            for side in (0, 1):
                vectors[side, here] = self._stores[index][side].take(rows)
                codes[side, here] = self._codes[index][side]
        return VectorPairs(*map(torch.from_numpy, (*vectors, *codes)))
