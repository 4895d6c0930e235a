"""The inner loops of the alignment, compiled by Numba: dynamic programming in a band.

A band says for each row i of [0, n] which columns of [0, m] belong to it, and has one cell for each. Cell
(i, j) is the point before sentence i of the source and sentence j of the target; the numbers of a row's cells
are consecutive. An alignment of a and b sentences leads from cell (i, j) to cell (i + a, j + b).
"""

from __future__ import annotations

import math

import numpy as np

from mexma_cli.knn.kernels import dot
from mexma_cli.numerics.compiling import compiled, inlined

COSINE = 1.5
LENGTHS = 0.95
ALIGNED = 1.0
"""Weights in the value of an alignment, and what it is worth to align at all; fitted, see docs/align.md."""


@inlined
def _value(cosine: float, x_length: float, y_length: float) -> float:
    """What an alignment adds to its path: a log-odds against leaving the same sentences unaligned.

    Evidence grows with the root of the length: so does the number of standard deviations by which a mean
    over words differs from its expectation. The lengths differ by a random walk of as many steps (Gale and
    Church 1993).
    """
    total = x_length + y_length
    return (
        COSINE * math.sqrt(total) * cosine
        - LENGTHS * abs(x_length - y_length) / math.sqrt(total + 1)
        + ALIGNED
    )


@compiled()
def values(cosines: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The values of alignments with these cosines, float32 [E], and characters of both sides, [E, 2]."""
    out = np.empty(len(cosines))
    for e in range(len(cosines)):
        out[e] = _value(cosines[e], lengths[e, 0], lengths[e, 1])
    return out


@compiled()
def products(
    x: np.ndarray,
    y: np.ndarray,
    band: tuple[np.ndarray, np.ndarray, np.ndarray],
    rows: tuple[int, int],
    out: np.ndarray,
) -> None:
    """The product of sentence i of x with sentence j of y in cell (i, j) of `out`, float32, for some rows."""
    low, high, first = band
    for i in range(rows[0], rows[1]):
        for j in range(low[i], min(high[i], len(y) - 1) + 1):
            out[first[i] + j - low[i]] = dot(x[i], y[j])


@compiled()
def best_path(
    product: np.ndarray,
    norms: tuple[np.ndarray, np.ndarray],
    ends: tuple[np.ndarray, np.ndarray],
    band: tuple[np.ndarray, np.ndarray, np.ndarray],
    shift: int,
    best: np.ndarray,
    steps: np.ndarray,
) -> None:
    """Find the value of the best path to each cell, and its last step.

    Args:
        product: float32 [cells], of sentences k and c in cell (k + shift, c + shift).
        norms: float32 [S, n] and [S, m], lengths of the sums of the 1 to S vectors from each sentence on.
        ends: float64 [n + 1] and [m + 1], characters before each sentence.
        band: first column, last column and first cell of each row, int64 [n + 1].
        shift: 0, or 1 where all is in reverse order.
        best: float64 [cells], receives the values.
        steps: uint8 [cells, 2], receives the sentences of both sides in the last step.
    """
    low, high, first = band
    (x_norms, y_norms), (x_ends, y_ends) = norms, ends
    sums = np.empty(len(x_norms) + 1)
    for i in range(len(low)):
        for j in range(low[i], high[i] + 1):
            cell = first[i] + j - low[i]
            best[cell] = 0 if i == 0 and j == 0 else -np.inf
            if i > 0 and low[i - 1] <= j <= high[i - 1]:
                best[cell] = best[first[i - 1] + j - low[i - 1]]
                steps[cell, 0], steps[cell, 1] = 1, 0
            if j > low[i] and best[cell - 1] > best[cell]:
                best[cell] = best[cell - 1]
                steps[cell, 0], steps[cell, 1] = 0, 1
            sums[:] = 0
            for a in range(1, min(len(x_norms), i) + 1):
                k, total = i - a, 0.0
                for b in range(1, min(len(y_norms), j) + 1):
                    c = j - b
                    if low[k + shift] <= c + shift <= high[k + shift]:
                        total += product[first[k + shift] + c + shift - low[k + shift]]
                    sums[b] += total
                    norm = x_norms[a - 1, k] * y_norms[b - 1, c]
                    if low[k] <= c <= high[k] and norm > 0:
                        start = first[k] + c - low[k]
                        lengths = x_ends[i] - x_ends[k], y_ends[j] - y_ends[c]
                        found = best[start] + _value(sums[b] / norm, lengths[0], lengths[1])
                        if found > best[cell]:
                            best[cell] = found
                            steps[cell, 0], steps[cell, 1] = a, b


@compiled()
def contenders(
    before: np.ndarray,
    after: np.ndarray,
    least: float,
    most: int,
    band: tuple[np.ndarray, np.ndarray, np.ndarray],
    out: np.ndarray,
) -> int:
    """The steps between cells through each of which a path of at least some value may lead.

    Args:
        before, after: float64 [cells], values of the best paths from the beginning and to the end.
        most: sentences of one side in a step.
        out: int64 [places, 4], receives the sentences at which steps begin and end.

    Returns:
        The number of these steps; those above `places` are not written.
    """
    low, high, first = band
    count = 0
    for i in range(len(low)):
        for j in range(low[i], high[i] + 1):
            cell = first[i] + j - low[i]
            if before[cell] + after[cell] < least:
                continue
            for k in range(i, min(i + most, len(low) - 1) + 1):
                for c in range(max(j, low[k]), min(j + most, high[k]) + 1):
                    end = first[k] + c - low[k]
                    sizes = k - i, c - j
                    alone = sizes[0] + sizes[1] == 1
                    if before[end] + after[end] >= least and (alone or (sizes[0] > 0 and sizes[1] > 0)):
                        if count < len(out):
                            out[count, 0], out[count, 1], out[count, 2], out[count, 3] = i, j, k, c
                        count += 1
    return count


@compiled()
def best_of(
    steps: np.ndarray,
    worth: np.ndarray,
    band: tuple[np.ndarray, np.ndarray, np.ndarray],
    best: np.ndarray,
    last: np.ndarray,
) -> None:
    """Find the best path through some steps only.

    Args:
        steps: int64 [E, 4] as from `contenders`.
        worth: float64 [E], their values.
        best: float64 [cells], -inf but in cell (0, 0); receives the values of the best paths.
        last: int64 [cells], receives the last step.
    """
    low, _, first = band
    for step in range(len(steps)):
        i, j, k, c = steps[step]
        found = best[first[i] + j - low[i]] + worth[step]
        end = first[k] + c - low[k]
        if found > best[end]:
            best[end], last[end] = found, step
