"""Sentences that are nearly equal, by MinHash and bands (Broder, 1997; Leskovec and others, ch. 3)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mexma_cli.errors import require

RUN = 5
"""Characters of the runs that sentences are compared by."""
_LOOKED_AT = 1 << 16
"""Characters of a sentence that are compared; nobody writes so long a one."""
HASHES = 128
_SEED = 42
_FACTOR = np.uint64(0x9E3779B97F4A7C15)


def bands_of(similarity: float) -> tuple[int, int]:
    """Bands, and hashes in each, with which half of the pairs of a similarity are found.

    A pair of similarity s shares a band with the chance 1 - (1 - s^hashes)^bands, which is steepest there.
    """
    sizes = [(HASHES // size, size) for size in range(1, HASHES + 1)]
    return min(sizes, key=lambda pair: abs(1 - (1 - similarity ** pair[1]) ** pair[0] - 0.5))


class Signatures:
    """The bands of sentences: those that share one are near-duplicates.

    Args:
        similarity: Of the sets of their runs of `RUN` characters (Jaccard): half of the pairs with this one
            are found, most of those above it, few below.

    Raises:
        MexmaError: rensa is not installed.
    """

    def __init__(self, similarity: float) -> None:
        require("rensa", "near", "the rule near-duplicate")
        self._bands, self._size = bands_of(similarity)

    def bands(self, sentences: Sequence[str]) -> np.ndarray:
        """uint64 [N, bands]: equal numbers in a column are equal bands."""
        from rensa import RMinHash

        if not sentences:
            return np.empty((0, self._bands), dtype=np.uint64)
        hashes, starts = _runs(sentences)
        found = RMinHash.digest_matrix_from_flat_token_hashes(hashes, starts, HASHES, _SEED)
        rows = np.array(found.to_rows(), dtype=np.uint64)[:, : self._bands * self._size]
        bands = np.zeros((len(sentences), self._bands), dtype=np.uint64)
        for column in range(self._size):
            bands = (bands ^ rows[:, column :: self._size]) * _FACTOR
            bands ^= bands >> np.uint64(29)
        return (bands + np.arange(self._bands, dtype=np.uint64)) * _FACTOR


def _runs(sentences: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Hashes of all runs of `RUN` characters, uint64; where those of each sentence begin, and the end."""
    padded = [sentence[:_LOOKED_AT].casefold().ljust(RUN) for sentence in sentences]
    points = np.frombuffer("".join(padded).encode("utf-32-le"), dtype=np.uint32).astype(np.uint64)
    hashes = np.zeros(len(points) - RUN + 1, dtype=np.uint64)
    for place in range(RUN):
        hashes = (hashes + points[place : len(hashes) + place]) * _FACTOR
        hashes ^= hashes >> np.uint64(32)
    lengths = np.fromiter(map(len, padded), dtype=np.int64, count=len(padded))
    ends = np.cumsum(lengths)
    inside = np.ones(len(points), dtype=bool)
    for place in range(1, RUN):
        inside[ends - place] = False  # a run that begins here ends in the next sentence
    starts = np.concatenate([[0], np.cumsum(lengths - RUN + 1)]).astype(np.uint64)
    return hashes[inside[: len(hashes)]], starts
