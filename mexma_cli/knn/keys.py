"""A score and a row number as one int64, so that lists of the best are sorted integers."""

from __future__ import annotations

import numpy as np

EMPTY = np.iinfo(np.int64).min
"""The key of a place in a list of k best that nobody has taken."""


def keys_of(scores: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The keys of scores, float32, and row numbers, int64, of the same shape.

    They order as (score ascending, row descending).
    """
    bits = (scores + np.float32(0)).view(np.int32).astype(np.int64)  # -0.0 becomes 0.0
    return (np.where(bits < 0, bits ^ 0x7FFFFFFF, bits) << 32) | (0xFFFFFFFF - rows)


def rows_of(keys: np.ndarray) -> np.ndarray:
    """Row numbers in keys, int64."""
    return np.int64(0xFFFFFFFF) - (keys & np.int64(0xFFFFFFFF))


def scores_of(keys: np.ndarray) -> np.ndarray:
    """The scores in keys of any shape, float32; -inf for EMPTY."""
    ordered = (keys >> 32).astype(np.int32)
    scores = np.where(ordered < 0, ordered ^ np.int32(0x7FFFFFFF), ordered).astype(np.int32).view(np.float32)
    return np.where(keys == EMPTY, np.float32(-np.inf), scores)
