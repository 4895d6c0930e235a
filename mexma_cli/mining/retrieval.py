"""The retrievals: which candidates are looked at, and which of them are taken.

A new one is one more entry of `RETRIEVALS`, and its name and help in `settings.stages`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

from mexma_cli.mining.candidates import Candidates
from mexma_cli.settings.stages import MineSettings

COMPILED_FROM = 1 << 17
"""Pairs for which it pays to wait for Numba."""


class OneToOne:
    """Takes a pair if neither of its rows is taken before. Takes a bit for each row.

    Args:
        rows: Of source and target.
        one_text: These are the same rows.
    """

    def __init__(self, rows: tuple[int, int], one_text: bool = False) -> None:
        bits = [np.zeros(-(-count // 8), np.uint8) for count in rows]
        self._taken = [bits[0], bits[0]] if one_text else bits

    def taken(self, pairs: Candidates) -> np.ndarray:
        """bool [n], for the n pairs that come next, best first."""
        claim = _claim if len(pairs) < COMPILED_FROM else _claim_compiled()
        return claim(pairs.source, pairs.target, *self._taken)


class Once:
    """Takes each pair once. One that is the best of both its rows comes twice, with the same score, so one
    after the other."""

    def __init__(self, rows: tuple[int, int], one_text: bool = False) -> None:
        self._last = -1, -1

    def taken(self, pairs: Candidates) -> np.ndarray:
        """bool [n], for the n pairs that come next, best first."""
        return ~self._again(pairs)

    def _again(self, pairs: Candidates) -> np.ndarray:
        source, target = np.append(self._last[0], pairs.source), np.append(self._last[1], pairs.target)
        self._last = source[-1], target[-1]
        return (source[1:] == source[:-1]) & (target[1:] == target[:-1])


class OfBoth(Once):
    """Takes the pairs that come twice."""

    def taken(self, pairs: Candidates) -> np.ndarray:
        """bool [n], for the n pairs that come next, best first."""
        return self._again(pairs)


@dataclass(frozen=True)
class Retrieval:
    """A way from neighbours to pairs.

    Attributes:
        taking: Made for the rows of both texts, decides which candidates are taken.
        sides: Whose neighbours are candidates: 0, the sources', and 1, the targets'.
        every: All neighbours of a row are candidates, and not only the best by margin.
        least: The threshold where none is given.
    """

    name: str
    taking: type[OneToOne | Once]
    sides: tuple[int, ...] = (0, 1)
    every: bool = False
    least: float | None = None


RETRIEVALS = {
    retrieval.name: retrieval
    for retrieval in (
        Retrieval("max", OneToOne, least=0.0),
        Retrieval("intersect", OfBoth),
        Retrieval("forward", Once, sides=(0,)),
        Retrieval("backward", Once, sides=(1,)),
        Retrieval("all", Once, every=True),
    )
}
"""max: the candidates of both sides, each row in one pair at most; intersect: those of both sides at once;
forward, backward: those of one side; all: every neighbour of every row."""


def retrieval_of(settings: MineSettings) -> Retrieval:
    """The retrieval that the settings name."""
    return RETRIEVALS[settings.retrieval]


def candidates_of(settings: MineSettings) -> int:
    """How many candidates a row has, at most."""
    return settings.k if retrieval_of(settings).every else 1


def least_of(settings: MineSettings) -> float | None:
    """The threshold that is given, or that the retrieval has; None: there is none."""
    return retrieval_of(settings).least if settings.least is None else settings.least


def _claim(
    source: np.ndarray, target: np.ndarray, taken_sources: np.ndarray, taken_targets: np.ndarray
) -> np.ndarray:
    """Which pairs [n] find both rows free and take them, bool [n]; one after the other."""
    chosen = np.zeros(len(source), dtype=np.bool_)
    for place in range(len(source)):
        own, other = source[place], target[place]
        own_bit, other_bit = 1 << (own & 7), 1 << (other & 7)
        if not (taken_sources[own >> 3] & own_bit or taken_targets[other >> 3] & other_bit):
            taken_sources[own >> 3] |= own_bit
            taken_targets[other >> 3] |= other_bit
            chosen[place] = True
    return chosen


@cache
def _claim_compiled() -> Callable[..., np.ndarray]:
    from mexma_cli.numerics.compiling import compiled

    return compiled()(_claim)
