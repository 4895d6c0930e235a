"""The inner loop of the alignment: dynamic programming in a band, compiled by Numba."""

from __future__ import annotations

import numpy as np

from mexma_cli.knn.kernels import dot
from mexma_cli.numerics.compiling import compiled


@compiled()
def best_path(
    x: np.ndarray,
    y: np.ndarray,
    x_background: np.ndarray,
    y_background: np.ndarray,
    band: tuple[np.ndarray, np.ndarray, np.ndarray],
    costs: tuple[float, float],
    steps: np.ndarray,
    scores: np.ndarray,
) -> None:
    """Find the best step to every cell of a band.

    Args:
        x, y: float32 [S, n, d] and [S, m, d], vectors of the runs of 1 to S sentences from each on.
        x_background, y_background: float32 [S, n] and [S, m], their mean cosines with the other side.
        band: first column, last column, first cell of each row, int64 [n + 1]; cell (i, j) is between
            sentences.
        costs: the similarity at which sentences are as well left out, and the cost of each sentence more.
        steps: uint8 [cells, 2], receives the sentences of both sides in the best step.
        scores: float32 [cells], receives its score.
    """
    low, high, offsets = band
    threshold, penalty = costs
    sizes, n = len(x), x.shape[1]
    best = np.full(offsets[-1], -np.inf)
    for i in range(n + 1):
        for j in range(low[i], high[i] + 1):
            cell = offsets[i] + j - low[i]
            if i == 0 and j == 0:
                best[cell] = 0
            if i > 0 and low[i - 1] <= j <= high[i - 1]:
                best[cell] = best[offsets[i - 1] + j - low[i - 1]]
                steps[cell, 0], steps[cell, 1] = 1, 0
            if j > low[i] and best[cell - 1] > best[cell]:
                best[cell] = best[cell - 1]
                steps[cell, 0], steps[cell, 1] = 0, 1
            for a in range(1, min(sizes, i) + 1):
                for b in range(1, min(sizes, j) + 1):
                    row, column = i - a, j - b
                    if low[row] <= column <= high[row]:
                        background = (x_background[a - 1, row] + y_background[b - 1, column]) / 2
                        cosine = dot(x[a - 1, row], y[b - 1, column])
                        score = (cosine - background) / max(1 - background, np.float32(1e-6))
                        total = best[offsets[row] + column - low[row]] + (a + b) * (score - threshold)
                        total -= penalty * (a + b - 2)
                        if total > best[cell]:
                            best[cell], scores[cell] = total, score
                            steps[cell, 0], steps[cell, 1] = a, b
