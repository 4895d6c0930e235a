"""The margins: how much nearer two sentences are than their neighbourhoods. All of the package uses these.

A new margin is one more entry of `MARGINS`, and its name and help in `settings.stages`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # --help reads the names, and waits neither for NumPy nor for torch
    import numpy as np

    from mexma_cli.knn.neighbours import Neighbours

_ENTRIES = 1 << 20  # scores that are averaged together


@dataclass(frozen=True)
class Margin:
    """A score for a pair with cosine c and background b, the mean of both neighbourhoods' mean cosines."""

    name: str
    score: Callable[[np.ndarray, np.ndarray], np.ndarray]
    """(c, b) -> scores; float32, of shapes that broadcast, and never nan."""
    slope: Callable[[np.ndarray], np.ndarray | float] | None = None
    """b -> the most by which the score changes for a change of c by 1 (its Lipschitz constant in c).

    Document-restricted search estimates cosines first and computes only those pairs exactly that, by this
    bound, may be among the best. None: no bound is known, and every pair is computed exactly.
    """
    uses_neighbourhoods: bool = True
    """False: the score is a function of c alone."""


def _ratio(cosine: np.ndarray, background: np.ndarray) -> np.ndarray:
    import numpy as np

    cosine, background = np.broadcast_arrays(cosine, background)
    return np.divide(cosine, background, out=np.zeros_like(cosine), where=background != 0)


def _absolute(cosine: np.ndarray, background: np.ndarray) -> np.ndarray:
    import numpy as np

    return cosine + np.zeros_like(background)


def _ratio_slope(background: np.ndarray) -> np.ndarray:
    import numpy as np

    return _ratio(np.ones_like(background), abs(background))


MARGINS = {
    margin.name: margin
    for margin in (
        Margin("ratio", _ratio, _ratio_slope),
        Margin("distance", lambda c, b: c - b, lambda b: 1.0),
        Margin("absolute", _absolute, lambda b: 1.0, uses_neighbourhoods=False),
    )
}
"""By name; the first is the default."""


def margin(
    cosine: np.ndarray, forward_mean: np.ndarray, backward_mean: np.ndarray, name: str = "ratio"
) -> np.ndarray:
    """Score pairs by their cosine c against b, the mean of the mean cosines of both neighbourhoods.

    absolute: c; distance: c - b; ratio: c / b (Artetxe and Schwenk 2019, "Margin-based parallel corpus
    mining", equations 1 to 3; computed in float32 in LASER's order). Where b is 0 the ratio is 0.

    Args:
        cosine, forward_mean, backward_mean: float32, of shapes that broadcast.
        name: a name in `MARGINS`.

    Raises:
        ValueError: there is no margin of that name.
    """
    if name not in MARGINS:
        raise ValueError(f"margin {name!r} is none of {', '.join(MARGINS)}")
    return MARGINS[name].score(cosine, (forward_mean + backward_mean) / 2)


def means(neighbours: Neighbours) -> tuple[np.ndarray, np.ndarray]:
    """Mean cosine of every row's neighbours: float32 [N] of x and [M] of y; 0 for rows that were left out.

    Takes little more memory than the result.
    """
    return (
        mean_of(neighbours.forward_scores, neighbours.forward_ids),
        mean_of(neighbours.backward_scores, neighbours.backward_ids),
    )


def mean_of(scores: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """Mean cosine of the neighbours of some rows, float32 [n], of scores and ids [n, k]; see `means`."""
    import numpy as np

    result = np.zeros(len(scores), dtype=np.float32)
    if scores.shape[1] == 0:
        return result
    step = max(1, _ENTRIES // scores.shape[1])
    for start in range(0, len(scores), step):
        part = slice(start, start + step)
        result[part] = np.where(ids[part] < 0, np.float32(0), scores[part]).mean(axis=1, dtype=np.float32)
    return result
