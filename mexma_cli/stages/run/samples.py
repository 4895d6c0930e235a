"""Samples of mined or aligned pairs for a report: how their scores are spread, and pairs of each band."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from mexma_cli.formats.bitext import AlignedPair, MinedPair

_BINS = 24
_NARROWEST = 0.001  # width of a bin
_BANDS = 6
_OF_A_BAND = 3
_WORST = 6
_AT_ONCE = 1 << 20


def histogram(scores: np.ndarray, probable: bool = False) -> dict[str, Sequence[float]]:
    """`counts` of scores, sorted best first, between neighbouring `edges`: of few scores, or scores that are
    almost one, there are few.

    Args:
        probable: Scores are probabilities; then `wrong` is the number of each count's pairs that are expected
            to be no translations.
    """
    if not len(scores):
        return {"edges": [], "counts": []}
    ends = float(scores[-1]), float(scores[0])
    bins = max(1, min(_BINS, math.isqrt(len(scores)), int((ends[1] - ends[0]) / _NARROWEST)))
    edges = np.linspace(*ends, bins + 1)
    counts, wrong = np.zeros(bins, np.int64), np.zeros(bins)
    for start in range(0, len(scores), _AT_ONCE):
        part = scores[start : start + _AT_ONCE].astype(np.float64)
        places = np.clip(np.searchsorted(edges, part, side="right") - 1, 0, bins - 1)
        counts += np.bincount(places, minlength=bins)
        if probable:
            wrong += np.bincount(places, 1 - part, bins)
    found: dict[str, Sequence[float]] = {
        "edges": [round(edge, 4) for edge in edges.tolist()],
        "counts": counts.tolist(),
    }
    if probable:
        found["wrong"] = [round(one, 2) for one in wrong.tolist()]
    return found


def samples(
    pairs: int, taken: Callable[[np.ndarray], Iterable[MinedPair | AlignedPair]]
) -> list[dict[str, Any]]:
    """A few pairs from each of some bands of scores, which have as many pairs as one another, and the worst
    ones, which are just above the threshold; best first.

    Args:
        pairs: How many there are.
        taken: From places, int64 [n], to the pairs there; the best pair is at 0.
    """
    spread = np.linspace(0, pairs - 1, min(pairs, _BANDS * _OF_A_BAND)).round().astype(np.int64)
    places = np.union1d(spread, np.arange(max(0, pairs - _WORST), pairs))
    return [
        {"score": round(pair.score, 4), "source": pair.source, "target": pair.target}
        for pair in (taken(places) if pairs else ())
    ]
