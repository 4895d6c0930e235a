"""Memory that stays with the process, and denormal numbers flushed to zero: faster training on a CPU."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

_TRIM_THRESHOLD, _MMAP_MAX = -1, -4  # of glibc's mallopt(3)
GROWTH = 1.3
"""How much more than a step has needed is kept."""


class KeptMemory:
    """Memory that a step frees stays with the process for the next one (Linux with glibc; elsewhere nothing).

    Every step frees what the next one allocates, and a page that comes fresh from the system costs several
    times what writing to it does. But memory that stays becomes fragmented and grows from step to step, so
    what is free is given back once the process holds `GROWTH` times what a step needs. That is measured
    after a step that began without kept memory; of the last two such steps the smaller one counts, since one
    may have been uncommonly large.
    """

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None) if sys.platform == "linux" else None
        self._needed = self._last = 0
        self._began_without = True
        if self._libc is not None and hasattr(self._libc, "mallopt"):
            self._libc.mallopt(_MMAP_MAX, 0)
            self._libc.mallopt(_TRIM_THRESHOLD, -1)  # never
        else:
            self._libc = None

    def bound(self) -> None:
        """Give back what is free, if that is too much. To be called after every step."""
        if self._libc is None:
            return
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        if self._began_without:
            self._needed, self._last = min(self._last, pages), pages
        self._began_without = pages > GROWTH * self._needed
        if self._began_without:
            self._libc.malloc_trim(0)


@contextmanager
def denormals_flushed() -> Iterator[None]:
    """Squared gradients of branches that start at zero are denormal numbers, 20 times slower on a CPU.

    In this thread, and in those that torch starts from now on, but not in those that it has.
    """
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)
