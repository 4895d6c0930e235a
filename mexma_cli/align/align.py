"""Monotone alignment of two documents that are translations of each other, from sentence vectors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mexma_cli.align.kernels import best_path

Runs = Callable[[np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Side:
    """One document in one language: n sentences.

    Attributes:
        vectors: float32 [n, d], unit length; rows of zeros for empty sentences.
        lengths: int64 [n], characters of each sentence.
        runs: (starts int64 [R], sizes int64 [R], all at least 2) -> float32 [R, d], unit vectors of runs of
            sentences.
    """

    vectors: np.ndarray
    lengths: np.ndarray
    runs: Runs


@dataclass(frozen=True)
class AlignSettings:
    """How documents are aligned.

    Attributes:
        max_size: The most sentences of one side in an alignment.
    """

    max_size: int = 5


@dataclass(frozen=True)
class Alignment:
    """Sentences that are translations of each other. An empty range on one side: nothing of the other
    document is the translation of this sentence; its score is 0."""

    source: range
    target: range
    score: float


_DENSE = 200  # sentences of both sides up to which the whole matrix is searched
_RADIUS = 10  # of the band around a coarse path
_PENALTY = 0.4  # of a sentence more in an alignment
_THRESHOLD = 0.1  # similarity at which two sentences are as well left unaligned


def align(source: Side, target: Side, settings: AlignSettings = AlignSettings()) -> list[Alignment]:
    """The best monotone alignment: every sentence of both sides is in one alignment, in order."""
    path = _coarse_path(source.vectors, target.vectors)
    size = settings.max_size
    path, scores = _search(_all_runs(source, size), _all_runs(target, size), path)
    found = []
    corners = path.tolist()
    for (i, j), (k, m), score in zip(corners[:-1], corners[1:], scores.tolist(), strict=True):
        found.append(Alignment(range(i, k), range(j, m), score))
    return found


def _coarse_path(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Corners of a path of 1-1 alignments, int64 [P, 2]: found for pairs of sentences first, then refined."""
    if min(len(x), len(y)) * max(len(x), len(y)) <= _DENSE**2 or min(len(x), len(y)) < 4:
        path = np.array([[0, 0], [len(x), len(y)]])
        radius = max(len(x), len(y))
    else:
        path = _coarse_path(_halved(x), _halved(y)) * 2
        path[-1] = len(x), len(y)
        radius = _RADIUS
    return _search(x[None], y[None], path, radius)[0]


def _halved(x: np.ndarray) -> np.ndarray:
    pairs = np.add.reduceat(x, np.arange(0, len(x), 2), axis=0)
    return pairs / np.maximum(np.linalg.norm(pairs, axis=1, keepdims=True), 1e-9)


def _all_runs(side: Side, max_size: int) -> np.ndarray:
    """float32 [max_size, n, d]: the vector of the run of s + 1 sentences from sentence i is at [s, i]."""
    count, dim = side.vectors.shape
    out = np.zeros((max_size, count, dim), np.float32)
    out[0] = side.vectors
    for size in range(2, min(max_size, count) + 1):
        starts = np.arange(count - size + 1)
        out[size - 1, : len(starts)] = side.runs(starts, np.full(len(starts), size))
    return out


def _search(
    x: np.ndarray, y: np.ndarray, path: np.ndarray, radius: int = _RADIUS
) -> tuple[np.ndarray, np.ndarray]:
    low, high = _band(path, len(y[0]), radius)
    offsets = np.concatenate([[0], np.cumsum(high - low + 1)])
    x_background, y_background = (
        side @ other[0].mean(axis=0) if len(other[0]) else np.zeros(side.shape[:2], np.float32)
        for side, other in ((x, y), (y, x))
    )
    steps = np.zeros((offsets[-1], 2), np.uint8)
    scores = np.zeros(offsets[-1], np.float32)
    band = low, high, offsets
    best_path(x, y, x_background, y_background, band, (_THRESHOLD, _PENALTY), steps, scores)
    i, j = len(x[0]), len(y[0])
    corners, found = [(i, j)], []
    while i or j:
        cell = offsets[i] + j - low[i]
        found.append(scores[cell])
        i, j = i - int(steps[cell, 0]), j - int(steps[cell, 1])
        corners.append((i, j))
    return np.array(corners[::-1], np.int64), np.array(found[::-1], np.float32)


def _band(path: np.ndarray, columns: int, radius: int) -> tuple[np.ndarray, np.ndarray]:
    """The first and last column of each row, int64 [n + 1], that are within `radius` of a path in both
    directions. Neighbouring rows overlap, so that a path through the band exists."""
    rows = np.arange(path[-1, 0] + 1)
    first = np.searchsorted(path[:, 0], rows - radius, "right") - 1
    last = np.searchsorted(path[:, 0], rows + radius, "left")
    low = path[np.maximum(first, 0), 1] - radius
    high = path[np.minimum(last, len(path) - 1), 1] + radius
    return np.maximum(low, 0), np.minimum(high, columns)
