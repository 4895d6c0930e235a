"""How far a command is, on stderr: a bar on a terminal, and a line a minute in a job's log."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from mexma_cli.errors import in_a_line

if TYPE_CHECKING:
    from tqdm import tqdm

log = logging.getLogger(__name__)

LINE_SECONDS = 60.0
"""From the beginning to the first line, and from line to line."""


DELAY_SECONDS = 0.3
"""Before a bar comes to a terminal: what is done by then needs none, and it begins with figures."""


class _Lines:
    """A stream for a progress bar where there is no terminal: a line of it is logged now and then."""

    def __init__(self) -> None:
        self._told = time.monotonic()

    def write(self, text: str) -> None:
        """Log it, if it is time again."""
        if (line := text.strip()) and time.monotonic() - self._told >= LINE_SECONDS:
            log.info(line)
            self._told = time.monotonic()

    def flush(self) -> None:
        """There is nothing to flush."""


def progress(items: Iterable[Any] | None = None, leave: bool = False, **settings: Any) -> tqdm[Any]:
    """A bar of tqdm's, perhaps over some items; with -q there is none. With `leave`, it stays on the
    terminal."""
    from tqdm import tqdm

    if not sys.stderr.isatty():
        settings["position"] = 0  # or it moves a cursor that is not there
        how: dict[str, Any] = {
            "file": _Lines(),
            "mininterval": min(5.0, LINE_SECONDS),
            "bar_format": "{desc}: {n_fmt} of {total_fmt} [{elapsed}<{remaining}, {rate_fmt}{postfix}]",
        }
    else:
        how = {"file": sys.stderr, "dynamic_ncols": True, "delay": DELAY_SECONDS}
    return tqdm(items, leave=leave, disable=not log.isEnabledFor(logging.INFO), **how | settings)


def follow(bar: tqdm[Any]) -> Callable[..., None]:
    """A function that moves a bar: called with how much is done, of how much, and perhaps of what."""

    def report_progress(done: int, total: int, at: str = "") -> None:
        bar.total = total
        if at:
            bar.set_postfix_str(in_a_line(at), refresh=False)
        bar.update(done - bar.n)
        if done >= total:
            bar.clear()  # what is printed now, on stdout perhaps, has the line to itself

    return report_progress
