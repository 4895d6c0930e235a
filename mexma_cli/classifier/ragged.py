"""Rows of different lengths in one array, which may be memory-mapped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeVar

import numpy as np

from mexma_cli.store.spool import Spool

Value = TypeVar("Value")


def flat(rows: Iterable[Sequence[Value]]) -> tuple[list[Value], np.ndarray]:
    """The values of all rows, one row after the other, and how many each has, int64 [rows]."""
    held = list(rows)
    return list(chain.from_iterable(held)), np.fromiter(map(len, held), np.int64, len(held))


@dataclass(frozen=True)
class Ragged:
    """So many values of each of N rows, one behind the other: those of row n end at `ends[n + 1]`."""

    values: np.ndarray
    ends: np.ndarray

    def counts(self, rows: np.ndarray) -> np.ndarray:
        """How many values some rows have, int64 [n]."""
        return self.ends[rows + 1] - self.ends[rows]

    def at(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The values of some rows, int64 [n], one row after the other; and for each the place of its row
        among these."""
        counts = self.counts(rows)
        owner = np.repeat(np.arange(len(rows)), counts)
        within = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
        return self.values[self.ends[rows][owner] + within], owner


class RaggedSpool:
    """Rows that are appended to temporary files.

    Raises:
        MexmaError: `write` finds the temporary disk full.
    """

    def __init__(self, dtype: Any) -> None:
        self._values, self._ends = Spool(dtype), Spool(np.int64)
        self._ends.write(np.zeros(1, np.int64))

    def write(self, values: Sequence[int] | np.ndarray, counts: np.ndarray) -> None:
        """Append rows, as `flat` has them."""
        start = self._values.rows
        self._values.write(np.asarray(values, np.int64))
        self._ends.write(start + np.cumsum(counts))

    @property
    def rows(self) -> int:
        """Rows so far."""
        return self._ends.rows - 1

    def ragged(self) -> Ragged:
        """All of them, memory-mapped."""
        return Ragged(self._values.array(), self._ends.array())
