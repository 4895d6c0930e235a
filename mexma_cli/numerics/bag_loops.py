"""`bags.sums` in compiled loops, to the last bit."""

from __future__ import annotations

import numpy as np

from mexma_cli.numerics.compiling import compiled


@compiled
def add(rows: np.ndarray, places: np.ndarray, starts: np.ndarray, found: np.ndarray) -> None:
    """Add rows, float32 or float64 [R, width], to `found`, float64 [bags, width].

    Args:
        places: int64, the rows of bags.
        starts: int64 [bags + 1], where each bag begins, and where the last one ends.
    """
    for bag in range(len(found)):
        total = found[bag]
        for at in range(starts[bag], starts[bag + 1]):
            row = rows[places[at]]
            for j in range(len(total)):
                total[j] += row[j]


@compiled
def add_coded(
    coded: tuple[np.ndarray, np.ndarray],
    places: tuple[np.ndarray, np.ndarray],
    starts: np.ndarray,
    found: np.ndarray,
) -> None:
    """As `add`, for rows that are quantised: their codes and the codebook.

    Args:
        places: As in `add`, and the lengths of these rows, float32.
        found: float64 [bags, a multiple of the numbers of a part].
    """
    codes, codebook = coded
    rows, lengths = places
    part = codebook.shape[1]
    for bag in range(len(found)):
        total = found[bag]
        for at in range(starts[bag], starts[bag + 1]):
            own, length = codes[rows[at]], lengths[at]
            for p in range(len(own)):
                for k in range(part):
                    total[p * part + k] += np.float64(codebook[own[p], k] * length)
