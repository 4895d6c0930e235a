"""Vectors of other programs: LASER's files, the numbers row after row and nothing else, and NumPy's .npy."""

from __future__ import annotations

from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import numpy as np

from mexma_cli.errors import MexmaError
from mexma_cli.settings.convert import ConvertSettings
from mexma_cli.store.arrays import load_array


@dataclass(frozen=True)
class VectorFile:
    """A file of vectors: NumPy's, or a raw one, whose `dim` and `dtype` only the settings say."""

    path: Path
    settings: ConvertSettings

    def open(self) -> np.ndarray:
        """Map it into memory: [rows, dim].

        Raises:
            MexmaError: As `open_npy` and `open_raw`.
        """
        if is_npy(self.path):
            return open_npy(self.path, self.settings.dim)
        assert self.settings.dim is not None
        return open_raw(self.path, self.settings.dim, self.settings.dtype)


def open_raw(path: Path, dim: int, dtype: str) -> np.ndarray:
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


def is_npy(path: Path) -> bool:
    """Whether a file is NumPy's, whatever its name."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(np.lib.format.MAGIC_PREFIX)) == np.lib.format.MAGIC_PREFIX


def open_npy(path: Path, dim: int | None = None) -> np.ndarray:
    """Map NumPy's file into memory: [rows, dim], float32 or float16.

    Args:
        dim: what the user says.

    Raises:
        MexmaError: damaged, other numbers than these, no rows of vectors, or another `dim`.
    """
    try:
        vectors = load_array(path, "r")
    except ValueError as error:
        raise MexmaError(f"{path} is no array that can be read: {error}") from None
    if vectors.ndim != 2 or vectors.dtype.name not in ("float32", "float16") or not vectors.size:
        raise MexmaError(
            f"{path} is an array of {vectors.dtype.name} with the shape {vectors.shape}",
            "wanted are rows of vectors in float32 or float16: numpy.save(NAME, array.astype('float32'))",
        )
    if dim not in (None, vectors.shape[1]):
        raise MexmaError(
            f"{path} has {vectors.shape[1]} numbers in a row, not {dim}",
            "leave out --dim: a .npy file says it itself",
        )
    return vectors


def npy_header(rows: int, dim: int, dtype: str) -> bytes:
    """The header of a .npy file, which stands before `to_raw`'s bytes."""
    header = BytesIO()
    descr = np.dtype(dtype).newbyteorder("<").str
    np.lib.format.write_array_header_1_0(
        header, {"descr": descr, "fortran_order": False, "shape": (rows, dim)}
    )
    return header.getvalue()


def to_raw(vectors: np.ndarray, dtype: str) -> bytes:
    """The bytes of [n, dim] vectors in a raw file.

    Raises:
        MexmaError: a number too large for float16.
    """
    with np.errstate(over="ignore"):
        converted = vectors.astype(np.dtype(dtype).newbyteorder("<"))
    if not np.isfinite(converted).all() and np.isfinite(vectors).all():
        raise MexmaError("a vector has numbers too large for float16", "write float32 instead")
    return converted.tobytes()
