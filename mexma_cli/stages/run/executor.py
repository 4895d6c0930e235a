"""What the scheduler asks of an executor, and the one that does units in its own process."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol


class Ended(NamedTuple):
    """A unit that a worker has finished, or has not: `error` says why, in a line."""

    todo: Path
    error: str | None = None
    died: bool = False
    """The worker died, or its machine did: another try may do."""


class Executor(Protocol):
    """Where units run. It knows nothing of them but the files that describe them."""

    @property
    def slots(self) -> int:
        """How many units it takes at a time, with those that wait for a worker."""
        ...

    def submit(self, todo: Path) -> None:
        """Take a unit."""
        ...

    def ended(self, seconds: float) -> Sequence[Ended]:
        """The units that have ended since the last call; waits so long for something to end."""
        ...

    def stop(self) -> None:
        """End all workers, at once."""
        ...


class InThisProcess:
    """An executor that does units in this process, one after the other."""

    slots = 1

    def __init__(self, run: Path) -> None:
        self._run, self._todo = run, list[Path]()

    def submit(self, todo: Path) -> None:
        self._todo.append(todo)

    def ended(self, seconds: float) -> Sequence[Ended]:
        from mexma_cli.stages.run.work import perform

        todo = self._todo.pop()
        perform(self._run, todo)
        return [Ended(todo)]

    def stop(self) -> None:
        self._todo.clear()
