"""The sentences of chosen rows, kept on disk until they are written."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from itertools import islice

import numpy as np

from mexma_cli.files import temporary_space
from mexma_cli.store.spool import distinct

_LINES = 1 << 16


class KeptTexts:
    """The sentences of some rows of a text: 16 bytes of memory each, the text in a temporary file.

    Args:
        sentences: Those of all rows, of a store or file; read once, in order.
        rows: int64 [n], in any order, repeated or not.

    Raises:
        MexmaError: the temporary disk is full, or the sentences are damaged.
    """

    def __init__(self, sentences: Iterator[str], rows: np.ndarray) -> None:
        self._rows = distinct(rows)
        self._ends = np.zeros(len(self._rows) + 1, dtype=np.int64)
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as this object
        with temporary_space():
            self._fill(sentences)

    def take(self, rows: np.ndarray) -> list[str]:
        """The sentences of some of the rows, in their order."""
        places = np.searchsorted(self._rows, rows)
        file = self._file.fileno()
        starts, ends = self._ends[places].tolist(), self._ends[places + 1].tolist()
        return [
            os.pread(file, end - start, start).decode("utf-8")
            for start, end in zip(starts, ends, strict=True)
        ]

    def _fill(self, sentences: Iterator[str]) -> None:
        first = done = 0
        while done < len(self._rows) and (block := list(islice(sentences, _LINES))):
            until = int(np.searchsorted(self._rows, first + len(block)))
            chosen = [block[row].encode("utf-8") for row in (self._rows[done:until] - first).tolist()]
            self._file.write(b"".join(chosen))
            lengths = np.fromiter(map(len, chosen), dtype=np.int64, count=len(chosen))
            self._ends[done + 1 : until + 1] = self._ends[done] + np.cumsum(lengths)
            first, done = first + len(block), until
        self._file.flush()
