"""For tests of the exact search: its products, vectors that are hard for it, and equality to the bit."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from mexma_cli.knn import exact_search
from mexma_cli.knn.device import OnDevice
from mexma_cli.knn.neighbours import Neighbours
from mexma_cli.knn.products import Float32, Int8, Samples
from mexma_cli.knn.torch_products import BFloat16, TorchFloat32
from mexma_cli.numerics.lanes import quads

Kind = Callable[[Samples], Float32]
KINDS: dict[str, Kind] = {
    "numpy": partial(Float32, compiled=False),
    "float32": Float32,
    "torch": TorchFloat32,
    "bfloat16": BFloat16,
    **({"int8": Int8} if quads() else {}),
    "device": partial(OnDevice, device="cpu", larger=(1, 1)),
}
"""All products; the last is the code for a GPU."""


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


def with_product(patch: pytest.MonkeyPatch, kind: Kind) -> None:
    patch.setattr(
        exact_search, "choose_product", lambda sides, *_: kind((sides[0].sample(), sides[1].sample()))
    )


def watch(patch: pytest.MonkeyPatch) -> list[exact_search.ExactSearch]:
    """All passes of searches from here on."""
    seen: list[exact_search.ExactSearch] = []
    run = exact_search.ExactSearch.run

    def watched(self: exact_search.ExactSearch, *arguments: object) -> None:
        seen.append(self)
        run(self, *arguments)  # type: ignore[arg-type]

    patch.setattr(exact_search.ExactSearch, "run", watched)
    return seen


def crowded(rows: int, dim: int, seed: int) -> np.ndarray:
    """Vectors far from the origin in tight groups: whole neighbourhoods lie within bfloat16's error."""
    rng = np.random.default_rng(seed)
    topics = rng.standard_normal((7, dim))
    near = topics[rng.integers(0, 7, rows)] + 0.003 * rng.standard_normal((rows, dim))
    near[: rows // 4] = near[rng.integers(0, rows, rows // 4)]  # and some are equal
    return (near + 3).astype(np.float32)
