"""Which documents are translations of each other, from the vectors of their sentences.

Candidates are near in vectors of whole documents that know the order: means of the sentences in five windows
over the document, as in Thompson and Koehn 2020 (Exploiting Sentence Order in Document Alignment). They
are judged by how well the sentences of each cover those of the other (BiMax, Wang et al. 2025).
"""

from __future__ import annotations

import numpy as np

WINDOWS = 5
CANDIDATES = 8
"""Nearest documents of each, in both directions, that are looked at sentence by sentence."""
LEAST = 0.05
"""How much more two documents must cover of each other than the other candidates of both do."""
_ROWS = 1 << 10  # sentences that are compared with the other document together
_ELSEWHERE = 1e-3  # the weight of sentences outside of a window: no window is empty


def document_vector(vectors: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """A document by its windows one after the other, float32 [WINDOWS * d]; zeros if it has no sentences.

    A sentence weighs the root of its length, and less the further it is from the middle of the window.

    Args:
        vectors: float32 [n, d], unit vectors of its sentences, zeros for empty ones.
        lengths: int64 [n], their characters.
    """
    weights = sentence_weights(lengths)
    middles = np.cumsum(weights) - weights / 2
    distances = np.abs(middles - np.linspace(0, 1, WINDOWS)[:, None]) * (WINDOWS - 1)
    windows = ((np.maximum(1 - distances, 0) + _ELSEWHERE) * weights) @ vectors
    norms = np.linalg.norm(windows, axis=1, keepdims=True)
    return np.asarray((windows / np.maximum(norms, 1e-9)).ravel(), np.float32)


def sentence_weights(lengths: np.ndarray) -> np.ndarray:
    """The weight of each sentence in its document, float64 [n]: the root of its length; together 1."""
    roots = np.sqrt(lengths)
    return np.asarray(roots / max(roots.sum(), 1e-9))


def centre(documents: np.ndarray) -> None:
    """Take from the vectors of one side's documents what all have in common, such as their language.

    The mean is one of one document more, a vector of zeros: a single document keeps a direction.

    Args:
        documents: float32 [D, w], changed in place.
    """
    documents -= documents.sum(axis=0) / (len(documents) + 1)


def coverage(source: np.ndarray, target: np.ndarray, weights: tuple[np.ndarray, np.ndarray]) -> float:
    """BiMax: the mean cosine of the sentences of both documents with the nearest of the other one.

    Args:
        source, target: [n, d] and [m, d], unit vectors.
        weights: Of both, as from `sentence_weights`.
    """
    best = np.empty(len(source), source.dtype), np.full(len(target), -np.inf, target.dtype)
    for at in range(0, len(source), _ROWS):
        cosines = source[at : at + _ROWS] @ target.T
        cosines.max(axis=1, out=best[0][at : at + _ROWS])
        np.maximum(best[1], cosines.max(axis=0), out=best[1])
    return float(weights[0] @ best[0] + weights[1] @ best[1]) / 2


def matched(candidates: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """The candidates that are taken, int64 [n], ascending: best first, each document once.

    A score counts by how much it is above the mean of the other candidates of both documents.

    Args:
        candidates: int [C, 2], source and target.
        scores: float [C], their coverage.
    """
    above = scores.astype(np.float64)
    for side in (0, 1):
        sums, counts = (np.bincount(candidates[:, side], values) for values in (scores, None))
        own = candidates[:, side]
        above -= (sums[own] - scores) / np.maximum(counts[own] - 1, 1) / 2
    taken = [set(), set()]  # type: list[set[int]]
    found = []
    for place in np.argsort(-above, kind="stable").tolist():
        pair = candidates[place].tolist()
        if above[place] <= LEAST:
            break
        if pair[0] not in taken[0] and pair[1] not in taken[1]:
            taken[0].add(pair[0])
            taken[1].add(pair[1])
            found.append(place)
    return np.array(sorted(found), np.int64)
