"""The name of the processor, and where a user's caches are; without torch and Numba."""

from __future__ import annotations

import os
import platform
from pathlib import Path


def processor_name() -> str:
    """The processor's name, as its maker has it, or else the kind of machine."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def cache_folder() -> Path | None:
    """XDG_CACHE_HOME, else ~/.cache; None for a user without a home."""
    if base := os.environ.get("XDG_CACHE_HOME"):
        return Path(base)
    try:
        return Path.home() / ".cache"
    except RuntimeError:
        return None
