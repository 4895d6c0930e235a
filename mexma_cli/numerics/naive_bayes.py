"""Naive Bayes over byte n-grams that an automaton finds, as langid.py does it (Lui and Baldwin, 2012)."""

from __future__ import annotations

import numpy as np

from mexma_cli.numerics.compiling import compiled, summing


@summing
def naive_bayes_scores(
    text: np.ndarray,
    ends: np.ndarray,
    automaton: tuple[np.ndarray, np.ndarray, np.ndarray],
    weights: np.ndarray,
    prior: np.ndarray,
) -> np.ndarray:
    """Score every class for every line: the prior, and log(1 + count) times the weights of each n-gram.

    Args:
        text: uint8, the lines one after the other.
        ends: int64 [N], where each line ends.
        automaton: Next states uint32 [rows * 256], the row of each state int32 [states], and the n-gram that
            a state has found int32 [states], -1 for none.
        weights: float32 [n-grams, classes].
        prior: float32 [classes].

    Returns:
        float32 [N, classes]; a line without n-grams has the prior.
    """
    following, rows, found = automaton
    counts = np.zeros(len(weights), dtype=np.int32)
    seen = np.empty(len(weights), dtype=np.int32)
    scores = np.empty((len(ends), len(prior)), dtype=np.float32)
    start = 0
    for line in range(len(ends)):
        used = _walk(text[start : ends[line]], following, rows, found, counts, seen)
        start = ends[line]
        row = scores[line]
        row[:] = prior
        for place in range(used):
            feature = seen[place]
            weight = np.log1p(np.float32(counts[feature]))
            counts[feature] = 0
            weighted = weights[feature]
            for label in range(len(row)):
                row[label] += weight * weighted[label]
    return scores


@compiled
def _walk(
    text: np.ndarray,
    following: np.ndarray,
    rows: np.ndarray,
    found: np.ndarray,
    counts: np.ndarray,
    seen: np.ndarray,
) -> int:
    """Count the n-grams of a line in `counts`; `seen` has those that are there, and the result how many."""
    state, used = np.int64(0), 0
    for place in range(len(text)):
        state = np.int64(following[(np.int64(rows[state]) << 8) + text[place]])
        feature = found[state]
        if feature >= 0:
            if counts[feature] == 0:
                seen[used] = feature
                used += 1
            counts[feature] += 1
    return used
