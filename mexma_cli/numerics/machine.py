"""The name of the processor, how much memory this process may have, and where a user's caches are; without
torch and Numba."""

from __future__ import annotations

import os
import platform
from pathlib import Path

_CGROUPS = Path("/sys/fs/cgroup")
_MEMBERSHIP = Path("/proc/self/cgroup")
_NONE = 1 << 60  # version 1 writes a huge number where there is no limit


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


def memory_limit() -> int | None:
    """Bytes that the container, or the service, of this process may hold; None: there is no such limit."""
    limits = []
    for line in _read(_MEMBERSHIP).splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            root, name = _CGROUPS, "memory.max"
        elif "memory" in controllers.split(","):
            root, name = _CGROUPS / "memory", "memory.limit_in_bytes"
        else:
            continue
        place = root / path.lstrip("/")
        # In a container the path is often that outside of it, and the limit is in the root.
        for folder in (place, *place.parents):
            text = _read(folder / name).strip()
            if text.isdecimal() and int(text) < _NONE:
                limits.append(int(text))
            if folder == root:
                break
    return min(limits, default=None)


def available_memory() -> int | None:
    """Bytes that this machine can give without paging, and the container's limit at most; None: not Linux."""
    for line in _read(Path("/proc/meminfo")).splitlines():
        if line.startswith("MemAvailable:"):
            free = int(line.split()[1]) * 1024
            limit = memory_limit()
            return free if limit is None else min(free, limit)
    return None


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError):
        return ""
