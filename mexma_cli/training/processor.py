"""What a processor needs in order to train at its speed."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import torch

_TRIM_THRESHOLD, _MMAP_MAX = -1, -4  # of glibc's mallopt(3)


def keep_memory() -> None:
    """Have freed memory used again by this process, and not given back to the system.

    Every step frees what the next one allocates, and a page that comes fresh from the system costs several
    times what writing to it does. Does something on Linux with glibc alone.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(_MMAP_MAX, 0)
        mallopt(_TRIM_THRESHOLD, -1)  # never


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
