"""The margin: how much nearer a pair is than its neighbourhoods. There is one in the house; all use this."""

from __future__ import annotations

import numpy as np

from mexma_cli.knn.exact import Neighbours

KINDS = ("ratio", "distance", "absolute")
_ENTRIES = 1 << 20  # scores that are looked at together


def margin(
    cosine: np.ndarray, forward_mean: np.ndarray, backward_mean: np.ndarray, kind: str = "ratio"
) -> np.ndarray:
    """Score pairs by their cosine c against b, the mean of the mean cosines of both neighbourhoods.

    absolute: c; distance: c - b; ratio: c / b (Artetxe and Schwenk 2019, "Margin-based parallel corpus
    mining", equations 1 to 3; computed in float32 in LASER's order). Where b is 0 the ratio is 0.

    Args:
        cosine, forward_mean, backward_mean: float32, of shapes that broadcast.
        kind: one of KINDS.
    """
    if kind not in KINDS:
        raise ValueError(f"margin {kind!r} is none of {', '.join(KINDS)}")
    background = (forward_mean + backward_mean) / np.float32(2)
    if kind == "absolute":
        return cosine + np.zeros_like(background)
    if kind == "distance":
        return cosine - background
    cosine, background = np.broadcast_arrays(cosine, background)
    return np.divide(cosine, background, out=np.zeros_like(cosine), where=background != 0)


def means(neighbours: Neighbours) -> tuple[np.ndarray, np.ndarray]:
    """Mean cosine of every row's neighbours: float32 [N] of x and [M] of y; 0 for rows that were left out.

    Takes little more memory than the result.
    """
    return (
        _mean(neighbours.forward_scores, neighbours.forward_ids),
        _mean(neighbours.backward_scores, neighbours.backward_ids),
    )


def _mean(scores: np.ndarray, ids: np.ndarray) -> np.ndarray:
    result = np.zeros(len(scores), dtype=np.float32)
    if scores.shape[1] == 0:
        return result
    step = max(1, _ENTRIES // scores.shape[1])
    for start in range(0, len(scores), step):
        part = slice(start, start + step)
        result[part] = np.where(ids[part] < 0, np.float32(0), scores[part]).mean(axis=1, dtype=np.float32)
    return result
