"""How vectors are stored: as float16 or float32, or as int8 with a scale for each row."""

from __future__ import annotations

from typing import Any

import numpy as np

_SCALE, _VALUES = "scale", "values"
_DROPPED = 0xFF
"""Bits of a scale that are zeros: 127 times a scale is exact, so that what was read is stored as it was."""


def file_type(dtype: str, dim: int) -> tuple[np.dtype[Any], int | None]:
    """The type of the array in a file of vectors, and its columns; None: a record a row.

    Args:
        dtype: `float16`, `float32`, or `int8`, records of `scale`, float32, and `values`, int8 [dim].
    """
    if dtype == "int8":
        return np.dtype([(_SCALE, "<f4"), (_VALUES, "i1", (dim,))]), None
    return np.dtype(dtype), dim


def as_stored(vectors: np.ndarray, dtype: str) -> np.ndarray:
    """Vectors, float [n, dim], as they are stored. int8: 127 stands for the largest number of a row."""
    if dtype != "int8":
        with np.errstate(over="ignore"):
            return np.asarray(vectors).astype(dtype)
    vectors = np.asarray(vectors, np.float32)
    found = np.zeros(len(vectors), file_type(dtype, vectors.shape[1])[0])
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        scales = np.abs(vectors).max(axis=1, initial=0) / np.float32(127)
        bits = scales.view(np.uint32)
        scales = ((bits + np.uint32(_DROPPED)) & ~np.uint32(_DROPPED)).view(np.float32)
        values = np.rint(vectors / np.where(scales > 0, scales, 1)[:, None])
    found[_SCALE], found[_VALUES] = scales, np.nan_to_num(values)
    return found


def as_vectors(rows: np.ndarray) -> np.ndarray:
    """Vectors, float32 [n, dim], of what is stored."""
    if rows.dtype.names is None:
        return rows.astype(np.float32)
    found: np.ndarray = rows[_VALUES] * rows[_SCALE][:, None]
    return found


def fits(vectors: np.ndarray, stored: np.ndarray) -> np.ndarray:
    """Whether each vector is a number in the type that it is stored in, and is not lost: bool [n]."""
    if stored.dtype.names is None:
        good: np.ndarray = np.isfinite(stored).all(axis=1)
        if stored.dtype == np.float16:
            good &= stored.any(axis=1) | ~np.asarray(vectors).any(axis=1)
        return good
    kept = stored[_VALUES].any(axis=1) | ~np.asarray(vectors).any(axis=1)
    return kept & np.isfinite(stored[_SCALE]) & np.isfinite(vectors).all(axis=1)
