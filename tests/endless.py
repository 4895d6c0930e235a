"""What must not take the square of its length: then a test would take hours."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def processor_seconds(limit: float) -> Iterator[None]:
    """Fail, and do not go on for hours, when the block takes this process more of the processor's time."""

    def fail(*_: object) -> None:
        raise AssertionError(f"more than {limit} s of the processor's time")

    before = signal.signal(signal.SIGVTALRM, fail)
    signal.setitimer(signal.ITIMER_VIRTUAL, limit)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
