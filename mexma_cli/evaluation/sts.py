"""Semantic textual similarity: do cosines rank and measure pairs as people do (paper section 4.2)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from mexma_cli.errors import MexmaError


@dataclass(frozen=True)
class StsScores:
    """Correlations of cosines with people's scores, in percent; None where one side is constant."""

    spearman: float | None
    pearson: float | None


def score_pairs(left: np.ndarray, right: np.ndarray, gold: np.ndarray) -> StsScores:
    """How well the cosines of n pairs follow their gold scores.

    Args:
        left, right: float [n, dim].
        gold: float [n], in any unit.

    Raises:
        MexmaError: Fewer than two pairs.
    """
    if len(gold) < 2:
        raise MexmaError(f"a correlation needs two pairs at least, not {len(gold)}")
    similarities = cosines(left, right)
    found = spearman(similarities, gold), pearson(similarities, gold)
    return StsScores(*(None if math.isnan(value) else 100 * value for value in found))


def cosines(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """float64 [n]: cosine of row i with row i; 0 where one of them is zero."""
    left, right = left.astype(np.float64), right.astype(np.float64)
    products = np.einsum("nd,nd->n", left, right)
    norms = np.linalg.norm(left, axis=1) * np.linalg.norm(right, axis=1)
    return np.divide(products, norms, out=np.zeros_like(products), where=norms > 0)


def pearson(a: np.ndarray, b: np.ndarray) -> float:
    """Correlation of two rows of numbers, [n] each; nan if one is constant."""
    if a.min() == a.max() or b.min() == b.max():  # their mean need not be just that number
        return float("nan")
    a, b = a - a.mean(), b - b.mean()
    return float(a @ b) / float(np.linalg.norm(a) * np.linalg.norm(b))


def spearman(a: np.ndarray, b: np.ndarray) -> float:
    """Correlation of ranks, ties sharing their mean rank; nan if one row is constant."""
    return pearson(_ranks(a), _ranks(b))


def _ranks(values: np.ndarray) -> np.ndarray:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return (ends - (counts - 1) / 2)[inverse]
