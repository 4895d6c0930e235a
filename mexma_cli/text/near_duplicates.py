"""Sentences that are nearly equal, by MinHash and bands (Broder, 1997; Leskovec and others, ch. 3)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mexma_cli.numerics.compiling import compiled

RUN = 5
"""Characters of the runs that sentences are compared by."""
_LOOKED_AT = 1 << 16
"""Characters of a sentence that are compared; nobody writes so long a one."""
HASHES = 128
_FACTOR = np.uint64(0x9E3779B97F4A7C15)


def bands_of(similarity: float) -> tuple[int, int]:
    """Bands, and hashes in each, with which half of the pairs of a similarity are found.

    A pair of similarity s shares a band with the chance 1 - (1 - s^hashes)^bands, which is steepest there.
    """
    sizes = [(HASHES // size, size) for size in range(1, HASHES + 1)]
    return min(sizes, key=lambda pair: abs(1 - (1 - similarity ** pair[1]) ** pair[0] - 0.5))


class Signatures:
    """The bands of sentences: those that share one are near-duplicates. Of the pairs whose sets of runs of
    `RUN` characters have this similarity (Jaccard), half are found; most of those above it, few below."""

    def __init__(self, similarity: float) -> None:
        self._bands, self._size = bands_of(similarity)
        numbers = _mixed(np.arange(2 * self._bands * self._size, dtype=np.uint64)).astype(np.uint32)
        self._factors, self._terms = numbers[::2] | np.uint32(1), numbers[1::2]

    def bands(self, sentences: Sequence[str]) -> np.ndarray:
        """uint64 [N, bands]: equal numbers in a column are equal bands."""
        if not sentences:
            return np.empty((0, self._bands), dtype=np.uint64)
        hashes, starts = _runs(sentences)
        rows = np.full((len(sentences), len(self._factors)), np.iinfo(np.uint32).max, dtype=np.uint32)
        _least(hashes, starts, self._factors, self._terms, rows)
        bands = np.zeros((len(sentences), self._bands), dtype=np.uint64)
        for column in range(self._size):
            bands = _mixed(bands ^ rows[:, column :: self._size])
        return (bands + np.arange(self._bands, dtype=np.uint64)) * _FACTOR


@compiled
def _least(
    hashes: np.ndarray, starts: np.ndarray, factors: np.ndarray, terms: np.ndarray, out: np.ndarray
) -> None:
    """The least of factor * hash + term modulo 2^32, for each sentence and each factor, which is odd: so each
    is an order of all hashes, and two sentences have the same least one as often as their sets are alike."""
    for row in range(len(out)):
        least = out[row]
        for place in range(starts[row], starts[row + 1]):
            for order in range(len(factors)):
                value = np.uint32(factors[order] * hashes[place] + terms[order])
                least[order] = min(least[order], value)


def _runs(sentences: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Hashes of all runs of `RUN` characters, uint32; where those of each sentence begin, and the end."""
    padded = [sentence[:_LOOKED_AT].casefold().ljust(RUN) for sentence in sentences]
    points = np.frombuffer("".join(padded).encode("utf-32-le"), dtype=np.uint32).astype(np.uint64)
    hashes = np.zeros(len(points) - RUN + 1, dtype=np.uint64)
    for place in range(RUN):
        hashes = _mixed(hashes + points[place : len(hashes) + place])
    lengths = np.fromiter(map(len, padded), dtype=np.int64, count=len(padded))
    ends = np.cumsum(lengths)
    inside = np.ones(len(points), dtype=bool)
    for place in range(1, RUN):
        inside[ends - place] = False  # a run that begins here ends in the next sentence
    starts = np.concatenate([[0], np.cumsum(lengths - RUN + 1)])
    return hashes[inside[: len(hashes)]].astype(np.uint32), starts


def _mixed(numbers: np.ndarray) -> np.ndarray:
    """Numbers (uint64), each with its bits stirred."""
    numbers = numbers * _FACTOR
    return numbers ^ (numbers >> np.uint64(32))
