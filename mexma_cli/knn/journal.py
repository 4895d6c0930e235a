"""The journal in which a search keeps its results, so that a killed search can go on."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np


class Place(NamedTuple):
    """How far a search is: the next tiles are those of x from row `top` on, `rows` rows of them, with y from
    row `start` on."""

    rows: int
    top: int
    start: int


class Journal(Protocol):
    """Keeps the neighbours that have been found so far, indexes, and how these are searched."""

    def load(self, forward: np.ndarray, backward: np.ndarray) -> tuple[int, int, int] | None:
        """Fill both lists with what was kept, and return its place; None if nothing was kept."""
        ...

    def due(self) -> bool:
        """Whether it is time for the next entry."""
        ...

    def save(self, place: Place, forward: np.ndarray, backward: np.ndarray) -> None:
        """Keep both lists, int64 keys. Rows of `forward` from place.top + place.rows on are empty yet."""
        ...

    @property
    def folder(self) -> Path:
        """Where indexes are kept."""
        ...

    @property
    def facts(self) -> dict[str, Any]:
        """The facts that this run or an earlier one has noted."""
        ...

    def note(self, began: float | None = None, **facts: Any) -> None:
        """Keep facts that JSON can hold. A file has been written since `began`, by `time.monotonic`."""
        ...
