"""A temporary disk that is full."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

FULL = Path("/dev/full")


def full_temporary_disk(test: Callable[[], None]) -> Any:
    """A test while nothing can be written to temporary files; skipped where no disk can be like that."""

    @functools.wraps(test)
    def on_full_disk() -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(tempfile, "TemporaryFile", lambda **_: FULL.open("w+b"))
            test()

    return pytest.mark.skipif(not FULL.exists(), reason="no /dev/full on this system")(on_full_disk)
