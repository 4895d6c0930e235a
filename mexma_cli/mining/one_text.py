"""Pairs within one text: paraphrases and near-copies."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mexma_cli.knn.neighbours import Neighbours
from mexma_cli.mining.estimate import without_pairs
from mexma_cli.mining.match import Candidates, best_first, match


def others(neighbours: Neighbours, k: int) -> Neighbours:
    """The k nearest others of every row.

    Args:
        neighbours: k + 1 of the rows of a text in the same text, where each may find itself.
    """
    rows = np.arange(len(neighbours.forward_ids))
    itself = Candidates(np.zeros(len(rows), np.float32), rows, rows, np.ones(len(rows), np.float32))
    return without_pairs(neighbours, itself, min(k, neighbours.forward_ids.shape[1] - 1))


def match_one_text(
    neighbours: Neighbours, kind: str = "ratio", retrieval: str = "max", threshold: float | None = None
) -> Candidates:
    """Take pairs as `match` does of two texts: each once, the lower row as its source.

    With max each row is in one pair at most, be it as source or as target; forward and backward are the same.

    Args:
        neighbours: from `others`, so that both directions are alike.
    """
    # Both directions and all ties are alike, so every pair is found together with its mirror image.
    found = match(neighbours, kind, retrieval, -np.inf)
    lower, upper = np.minimum(found.source, found.target), np.maximum(found.source, found.target)
    found = best_first(replace(found, source=lower, target=upper))
    new = np.ones(len(found), dtype=bool)
    new[1:] = (np.diff(found.source) != 0) | (np.diff(found.target) != 0)
    found = found.take(new)
    if threshold is None and retrieval == "max":
        threshold = 0.0
    return found if threshold is None else found.above(threshold)
