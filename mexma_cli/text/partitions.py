"""Hashes of very many rows, sorted in bounded memory: in parts by their first byte, on disk if many.

In memory are a buffer of `BUFFER` bytes and one part with its sorting.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from mexma_cli.errors import MexmaError

BUFFER = 12 << 20
PARTS = 256


class HashPartitions:
    """Hashes, each with the row that has it.

    Args:
        stem: Files are put beside it, under its name and a number.
        more: Names of other columns, uint32 as the rows.
    """

    def __init__(self, stem: Path, *more: str) -> None:
        self._stem = stem
        self._dtype = np.dtype([("hash", "<u8"), ("row", "<u4"), *((name, "<u4") for name in more)])
        self._blocks: list[np.ndarray] = []
        self._size = 0
        self._rest: list[np.ndarray] | None = None

    def add(self, hashes: np.ndarray, rows: np.ndarray, **more: np.ndarray) -> None:
        """Take uint64 [n] and as many rows, which ascend from call to call."""
        if len(rows) and rows[-1] >= 1 << 32:
            raise MexmaError(
                f"{self._stem.name}: more than {1 << 32:,} rows in one text", "divide it into several texts"
            )
        entries = np.empty(len(rows), dtype=self._dtype)
        entries["hash"], entries["row"] = hashes, rows
        for name, values in more.items():
            entries[name] = values
        self._blocks.append(entries)
        self._size += entries.nbytes
        if self._size >= BUFFER:
            for number, part in enumerate(self._divided()):
                with self._path(number).open("ab") as file:
                    file.write(part.tobytes())

    def sorted(self) -> Iterator[np.ndarray]:
        """The entries of each of `PARTS` parts by hash, equal ones by row; there is no `add` after this."""
        self._rest = self._divided()
        for number, rest in enumerate(self._rest):
            path = self._path(number)
            before = path.read_bytes() if path.is_file() else b""
            entries = np.concatenate([np.frombuffer(before, dtype=self._dtype), rest])
            yield entries[np.argsort(entries["hash"], kind="stable")]

    def _divided(self) -> list[np.ndarray]:
        """Take all entries out of the buffer, divided by the first byte of the hash."""
        entries = np.concatenate([np.empty(0, dtype=self._dtype), *self._blocks])
        self._blocks, self._size = [], 0
        first = (entries["hash"] >> np.uint64(56)).astype(np.uint8)
        ends = np.cumsum(np.bincount(first, minlength=PARTS))
        return np.split(entries[np.argsort(first, kind="stable")], ends[:-1])

    def remove(self) -> None:
        """Take the files away."""
        for number in range(PARTS):
            self._path(number).unlink(missing_ok=True)

    def _path(self, number: int) -> Path:
        return self._stem.with_name(f"{self._stem.name}.hashes-{number:03}")
