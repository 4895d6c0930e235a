"""The nearest rows of both sides, as every search gives them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mexma_cli.errors import MexmaError
from mexma_cli.knn.cosines import EMPTY, rows_of, scores_of
from mexma_cli.knn.sides import SearchSide

MORE_MEMORY = "more --memory, a smaller -k, or the text in parts"
_UNPACKED = 1 << 16  # rows whose lists are taken apart at once


class TooLittleMemory(MexmaError):
    """A search cannot be done in the memory that it was given; `needed` are the bytes in which it can."""

    def __init__(self, message: str, needed: int, hint: str = MORE_MEMORY) -> None:
        super().__init__(message, hint)
        self.needed = needed


@dataclass(frozen=True)
class Neighbours:
    """The nearest rows of the other side, by cosine, for every row of both sides.

    `forward_scores` float32 [N, k] and `forward_ids` int64 [N, k] belong to the rows of x and point into y;
    `backward_scores` [M, k'] and `backward_ids` [M, k'] the other way round. Each row is sorted by (score
    descending, id ascending). k is at most the number of candidates. A row that was left out has ids of -1
    and scores of -inf, and is nobody's neighbour.
    """

    forward_scores: np.ndarray
    forward_ids: np.ndarray
    backward_scores: np.ndarray
    backward_ids: np.ndarray

    def __repr__(self) -> str:
        (n, k), (m, j) = self.forward_ids.shape, self.backward_ids.shape
        return f"Neighbours({k} for each of {n:,} rows, {j} for each of {m:,})"

    @classmethod
    def of(cls, keys: tuple[np.ndarray, np.ndarray], left: SearchSide, right: SearchSide) -> Neighbours:
        """From keys of the kept rows of x and of y, ascending."""
        return cls(*_unpacked(keys[0], left, right), *_unpacked(keys[1], right, left))

    def first(self, k: int) -> Neighbours:
        """The k nearest of every row, without a copy."""
        return Neighbours(*(values[:, :k] for values in vars(self).values()))


def no_neighbours(left: SearchSide, right: SearchSide, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Lists for the keys of the k nearest, int64 [n, min(k, m)] and [m, min(k, n)], all of them `EMPTY`.

    Raises:
        ValueError: k is below 1, the sides have other dimensions, or more rows than a key can name.
    """
    if k < 1:
        raise ValueError(f"k must be at least 1, not {k}")
    if left.dim != right.dim:
        raise ValueError(f"vectors of {left.dim} and of {right.dim} dimensions")
    if len(right) > 0xFFFFFFFF or len(left) > 0xFFFFFFFF:
        raise ValueError("more than 2^32 rows")
    shapes = (len(left), min(k, len(right))), (len(right), min(k, len(left)))
    return np.full(shapes[0], EMPTY), np.full(shapes[1], EMPTY)


def _unpacked(keys: np.ndarray, own: SearchSide, other: SearchSide) -> tuple[np.ndarray, np.ndarray]:
    """Keys of kept rows, ascending -> scores and ids of all rows, best first."""
    scores = np.full((own.rows, keys.shape[1]), -np.inf, dtype=np.float32)
    ids = np.full((own.rows, keys.shape[1]), -1, dtype=np.int64)
    for start in range(0, len(keys), _UNPACKED):
        part, rows = keys[start : start + _UNPACKED, ::-1], own.ids[start : start + _UNPACKED]
        scores[rows] = scores_of(part)
        ids[rows] = other.ids[rows_of(part)] if part.size else -1
    return scores, ids
