"""LASER's embedding files: the numbers row after row, float32 or float16, and nothing else."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from mexma_cli.errors import MexmaError


def open_raw(path: Path, dim: int, dtype: str = "float32") -> np.ndarray:
    """Map a raw file into memory: [rows, dim] of `dtype` ("float32" or "float16"), little-endian.

    LASER's own reader cuts a file that is no whole number of rows; here that is an error.

    Raises:
        MexmaError: missing, empty, or not a whole number of rows.
    """
    if path.is_dir():
        raise MexmaError(f"{path} is a folder, not a file of raw vectors")
    if not path.exists():
        raise MexmaError(f"{path}: no such file")
    kind = np.dtype(dtype).newbyteorder("<")
    size, row = path.stat().st_size, dim * kind.itemsize
    if size == 0:
        raise MexmaError(f"{path} is empty: it has no vectors")
    if size % row:
        raise MexmaError(
            f"{path} has {size:,} bytes, no whole number of rows of {dim} x {dtype} ({row:,} bytes each)",
            "check --dim and --dtype: LASER's vectors have 1024 dimensions, in float16 if made with --fp16",
        )
    return np.memmap(path, dtype=kind, mode="r", shape=(size // row, dim))


def to_raw(vectors: np.ndarray, dtype: str = "float32") -> bytes:
    """The bytes of [n, dim] vectors in a raw file.

    Raises:
        MexmaError: a number too large for float16.
    """
    with np.errstate(over="ignore"):
        converted = vectors.astype(np.dtype(dtype).newbyteorder("<"))
    if not np.isfinite(converted).all() and np.isfinite(vectors).all():
        raise MexmaError("a vector has numbers too large for float16", "write float32 instead")
    return converted.tobytes()
