"""The rows of one side that take part in a search, block by block."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Protocol

import numpy as np

from mexma_cli.knn import cosines
from mexma_cli.numerics.threads import in_slices

_READ_ROWS = 1 << 12  # rows that are read at once
_SAMPLE = 2048  # rows from which the centre is taken
_FEW = 1 << 25  # numbers that NumPy has done before compiled loops are loaded
_ALIGNMENT = 64


class VectorSource(Protocol):
    """A source of rows of vectors: an EmbeddingStore, or anything that reads like one."""

    @property
    def rows(self) -> int: ...

    @property
    def dim(self) -> int: ...

    def vectors(self, start: int, stop: int) -> np.ndarray: ...


class SearchSide:
    """The rows of one side that take part, block by block."""

    def __init__(self, source: np.ndarray | VectorSource, keep: np.ndarray | None) -> None:
        self._source = source if hasattr(source, "vectors") else np.asarray(source)  # lists, torch's tensors
        if isinstance(self._source, np.ndarray):
            if self._source.ndim != 2:
                raise ValueError(f"an array of shape {self._source.shape}, not rows of vectors")
            self.rows, self.dim = self._source.shape
        else:
            self.rows, self.dim = self._source.rows, self._source.dim
        if keep is not None and keep.shape != (self.rows,):
            raise ValueError(f"a mask of shape {keep.shape} for {self.rows} rows")
        self.ids = np.arange(self.rows) if keep is None else np.flatnonzero(keep)

    def __len__(self) -> int:
        return len(self.ids)

    def raw(self, start: int, stop: int) -> np.ndarray:
        """Kept rows start to stop as they are, a float32 copy [n, d]."""
        ids = self.ids[start:stop]
        rows = _aligned(len(ids), self.dim)
        done = 0
        while done < len(ids):  # rows that take no part may lie between: never much of them at once
            first = int(ids[done])
            more = int(np.searchsorted(ids[done:], first + _READ_ROWS))
            last = int(ids[done + more - 1]) + 1
            source = self._source
            span = source[first:last] if isinstance(source, np.ndarray) else source.vectors(first, last)
            rows[done : done + more] = span if len(span) == more else span[ids[done : done + more] - first]
            done += more
        return rows

    def sample(self) -> np.ndarray:
        """Unit vectors of rows from all parts of the side, float32 [n, d]; rows of zeros are left out."""
        piece = max(1, min(len(self), _SAMPLE) // 8)
        starts = np.unique(np.linspace(0, max(len(self) - piece, 0), 8).astype(int)).tolist()
        rows = np.concatenate([self.raw(start, start + piece) for start in starts])
        sample: np.ndarray = rows[cosines.directed(rows)]
        cosines.unit_rows(sample)
        return sample

    def unit_vectors(self, start: int, stop: int) -> np.ndarray:
        """Kept rows start to stop as unit vectors float32 [n, d]; one that is not finite is a ValueError."""
        rows = self.raw(start, stop)
        unit_rows = _loops().unit_rows
        in_slices(len(rows), lambda a, b: self.check(start + a, unit_rows(rows[a:b])), 4 * rows.size)
        return rows

    def check(self, start: int, bad: int) -> None:
        """Refuse a vector that is not finite.

        Args:
            bad: Its row, counted from `start`, or -1: all are finite.

        Raises:
            ValueError: One is not.
        """
        if bad >= 0:
            raise ValueError(f"the vector of row {int(self.ids[start + bad])} is not finite")


def _loops() -> ModuleType:
    """The module of loops: `kernels` if these are loaded already, else `cosines`, which has the same by
    NumPy."""
    return sys.modules.get("mexma_cli.knn.kernels", cosines)


def dots(x: np.ndarray, y: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """`cosines.dots`, by compiled loops where there are many."""
    if len(rows) * x.shape[1] < _FEW:
        return cosines.dots(x, y, rows, columns)
    from mexma_cli.knn import kernels

    return kernels.dots(x, y, rows, columns)


def _aligned(rows: int, dim: int) -> np.ndarray:
    """Memory for float32 [rows, dim] that begins where vector instructions like it, as NumPy's does not."""
    memory = np.empty(rows * dim * 4 + _ALIGNMENT, dtype=np.uint8)
    first = -memory.ctypes.data % _ALIGNMENT
    return memory[first : first + rows * dim * 4].view(np.float32).reshape(rows, dim)
