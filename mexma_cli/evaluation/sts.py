"""Semantic textual similarity: do cosines rank and measure pairs as people do (paper section 4.2)."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from mexma_cli.errors import MexmaError
from mexma_cli.evaluation.embedder import Embed, Embedder
from mexma_cli.evaluation.readers.sts import ScoredPairs
from mexma_cli.reporting.result import Result
from mexma_cli.text.amounts import counted

log = logging.getLogger(__name__)

PUBLISHED = {"STS12": 3108, "STS13": 1500, "STS14": 3750, "STS15": 3000, "STS16": 1186, "STSBenchmark": 1379}
"""Data sets of the paper's Table 27 that are one file, and how many pairs they have there."""
ALIASES = {"sts-test": "STSBenchmark"}


def score_pairs(left: np.ndarray, right: np.ndarray, gold: np.ndarray) -> dict[str, float | None]:
    """`spearman` and `pearson` of the cosines of n pairs and their gold scores: percent, or None where one
    side is constant.

    Args:
        left, right: float [n, dim].
        gold: float [n], in any unit.

    Raises:
        MexmaError: Fewer than two pairs.
    """
    if len(gold) < 2:
        raise MexmaError(f"a correlation needs two pairs at least, not {len(gold)}")
    similarities = cosines(left, right)
    found = {"spearman": spearman(similarities, gold), "pearson": pearson(similarities, gold)}
    return {name: None if math.isnan(value) else 100 * value for name, value in found.items()}


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


def means_of_known(*columns: Sequence[float | None]) -> tuple[float, ...] | None:
    """The mean of each column, over the places where all of them have a number; None where there are none."""
    rows = [row for row in zip(*columns, strict=True) if None not in row]
    return tuple(fmean(column) for column in zip(*rows, strict=True)) if rows else None


def evaluate(sets: Sequence[ScoredPairs], paths: Sequence[Path], embed: Embedder) -> Result:
    """Correlations of all sets, and their means over the sets.

    Args:
        paths: As they were named.
    """
    rows = [row for pairs in sets for row in correlations(pairs, embed)]
    whole = [row for row in rows if row["part"] == "all"]
    scores = {}
    for key in ("spearman", "pearson"):
        if means := means_of_known([row[key] for row in whole]):
            scores[key] = means[0]
    settings = {"files": [str(path) for path in paths], "similarity": "cosine"}
    return Result("sts", embed.describe(), settings, scores, rows, "sts")


def correlations(pairs: ScoredPairs, embed: Embed) -> Iterator[dict[str, Any]]:
    """A data set's row, after one for each of its parts."""
    name = ALIASES.get(pairs.name, pairs.name)
    if len(pairs.gold) != PUBLISHED.get(name, len(pairs.gold)):
        count, whole = f"{len(pairs.gold):,}", f"{PUBLISHED[name]:,}"
        log.info("%s has %s pairs here and %s where it is published: not compared", name, count, whole)
        name += " (part)"
    left, right = embed(pairs.left), embed(pairs.right)
    parts = np.array(pairs.parts)
    groups = {part: np.flatnonzero(parts == part) for part in dict.fromkeys(pairs.parts)}
    groups = groups if len(groups) > 1 else {}
    for part, places in (groups | {"all": np.arange(len(pairs.gold))}).items():
        if len(set(pairs.gold[places].tolist())) < 2:
            continue  # a part with one score correlates with nothing
        found = score_pairs(left[places], right[places], pairs.gold[places])
        if found["spearman"] is None:
            log.warning("%s, %s: all cosines are equal, which correlates with nothing", name, part)
        yield {"data set": name, "part": part, "pairs": len(places)} | found
    if pairs.unscored:
        unscored = counted(pairs.unscored, "pair is", "pairs are")
        log.info("%s: %s left out, which were published without a score", name, unscored)
