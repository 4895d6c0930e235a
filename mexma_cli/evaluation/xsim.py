"""xSIM: how many sentences do not find their own translation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mexma_cli.mining.match import best_of_each
from mexma_cli.mining.neighbours import knn


@dataclass(frozen=True)
class XsimResult:
    """`errors` rows of `total` whose best row of the other side, by margin, is not their own."""

    errors: int
    total: int

    @property
    def error_rate(self) -> float:
        """Percent."""
        return 100.0 * self.errors / self.total


def xsim(x: np.ndarray, y: np.ndarray, margin: str = "ratio", k: int = 4) -> XsimResult:
    """Margin-based similarity error of aligned sentences, x to y, as LASER's xsim.py (index errors).

    Args:
        x, y: [N, d], row i of the one is the translation of row i of the other.
        margin: "ratio", "distance" or "absolute" (then k does not matter: the nearest row is taken).
        k: neighbours that make up a neighbourhood.
    """
    if x.shape != y.shape or not len(x):
        raise ValueError(f"xsim needs aligned rows, got {x.shape} and {y.shape}")
    forward, _ = best_of_each(knn(x, y, k), margin)
    return XsimResult(errors=int((forward.target != forward.source).sum()), total=len(x))
