"""For tests of the exact search: its arithmetic, vectors that are hard for it, and equality to the bit."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from mexma_cli.knn import sweep
from mexma_cli.knn.arithmetic import BFLOAT16, Arithmetic
from mexma_cli.knn.neighbours import Neighbours

DEVICE = dataclasses.replace(BFLOAT16, device="cpu")
"""The code for a GPU."""


def same(found: Neighbours, wanted: Neighbours) -> bool:
    """To the last bit."""
    return all(
        getattr(found, field.name).tobytes() == getattr(wanted, field.name).tobytes()
        for field in dataclasses.fields(Neighbours)
    )


class Source:
    """Reads like an EmbeddingStore."""

    def __init__(self, vectors: np.ndarray) -> None:
        self._vectors = vectors
        self.rows, self.dim = vectors.shape
        self.longest = 0

    def vectors(self, start: int, stop: int) -> np.ndarray:
        self.longest = max(self.longest, stop - start)
        return self._vectors[start:stop].astype(np.float32)


class Killed(Exception):
    """In place of a signal."""


def with_arithmetic(patch: pytest.MonkeyPatch, arithmetic: Arithmetic) -> None:
    patch.setattr(sweep, "choose_arithmetic", lambda *_: arithmetic)


def crowded(rows: int, dim: int, seed: int) -> np.ndarray:
    """Vectors far from the origin in tight groups: whole neighbourhoods lie within bfloat16's error."""
    rng = np.random.default_rng(seed)
    topics = rng.standard_normal((7, dim))
    near = topics[rng.integers(0, 7, rows)] + 0.003 * rng.standard_normal((rows, dim))
    near[: rows // 4] = near[rng.integers(0, rows, rows // 4)]  # and some are equal
    return (near + 3).astype(np.float32)
