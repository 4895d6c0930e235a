"""Hands the units of a plan to an executor, each when its inputs are done, until nothing is left to do."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

from mexma_cli.errors import MexmaError
from mexma_cli.files import write_json_atomic
from mexma_cli.stages.run.plan import Records
from mexma_cli.stages.run.units import Record, RunFolder, Unit

log = logging.getLogger(__name__)

TRIES = 3
"""How often a unit is tried whose worker dies."""
STATUS = "status.json"
_SECONDS = 1.0  # that the executor may take to say what has ended, and between two writings of the status


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
        """What has ended since the last call; waits so long for something to end."""
        ...

    def stop(self) -> None:
        """End all workers, at once."""
        ...


@dataclass
class Progress:
    """What a run has done, does and has failed to do: unit names by stage.

    Attributes:
        found_done: Units that were done already.
        done: Units that this run has done -> the seconds that they took.
        running: Units in work -> when they were submitted (`time.time`).
        failed: Units that cannot be done -> why.
        blocked: Units that need one of those.
    """

    units: dict[str, Unit] = field(default_factory=dict)
    found_done: set[str] = field(default_factory=set)
    done: dict[str, float] = field(default_factory=dict)
    running: dict[str, float] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    blocked: set[str] = field(default_factory=set)

    def by_stage(self) -> dict[str, dict[str, int]]:
        """Stage -> all, done, running, failed, blocked, and waiting units."""
        table: dict[str, dict[str, int]] = {}
        for state, names in (
            ("done", self.found_done | set(self.done)),
            ("running", set(self.running)),
            ("failed", set(self.failed)),
            ("blocked", self.blocked),
            ("all", set(self.units)),
        ):
            for stage, count in Counter(
                self.units[name].stage for name in names if name in self.units
            ).items():
                table.setdefault(stage, {})[state] = count
        order = list(dict.fromkeys(unit.stage for unit in self.units.values()))
        return {stage: table.get(stage, {}) for stage in order}


class Scheduler:
    """Runs a plan to its end.

    Args:
        folder: Of the run.
        plan: From the records of what is done to all units that can be told yet, each after its inputs.
        executor: Where they run.
        on_change: Called when a unit begins or ends.
        taken: Whether a unit's output is taken as it is, up to date or not.
    """

    def __init__(
        self,
        folder: RunFolder,
        plan: Callable[[Records], list[Unit]],
        executor: Executor,
        on_change: Callable[[Progress], None] = lambda progress: None,
        taken: Callable[[Unit], bool] = lambda unit: False,
    ) -> None:
        self._folder, self._plan, self._executor, self._on_change = folder, plan, executor, on_change
        self._taken = taken
        self.progress = Progress()
        self._tries: Counter[str] = Counter()
        self._told = 0.0
        self._last = ""

    def run(self) -> Progress:
        """Do all that can be done; what fails, and what needs it, is left and named."""
        try:
            self._look()
            while self.progress.running:
                for ended in self._executor.ended(_SECONDS):
                    self._end(ended)
                self._tell()
        except BaseException:
            self._executor.stop()
            raise
        self._tell(last=True)
        return self.progress

    def _look(self) -> None:
        """Find what is done, and submit what can begin."""
        progress = self.progress
        waiting = True
        while waiting:  # as long as more of the plan becomes known by units that are found done
            known = len(progress.found_done) + len(progress.done)
            progress.units = {unit.name: unit for unit in self._plan(self._record)}
            for unit in progress.units.values():
                self._consider(unit)
            waiting = len(progress.found_done) + len(progress.done) > known

    def _record(self, name: str) -> Record | None:
        return self._folder.record(name) if self._is_done(name) else None

    def _is_done(self, name: str) -> bool:
        return name in self.progress.done or name in self.progress.found_done

    def _consider(self, unit: Unit) -> None:
        progress, name = self.progress, unit.name
        if self._is_done(name) or name in progress.running or name in progress.failed:
            return
        inputs = unit.needs.values()
        if any(other in progress.failed or other in progress.blocked for other in inputs):
            progress.blocked.add(name)
        elif all(map(self._is_done, inputs)):
            if self._taken(unit):
                if self._folder.record(name) is None:
                    raise MexmaError(f"{name} is to be taken as it is, and was never done", "start earlier")
                progress.found_done.add(name)
            elif self._folder.done(unit) is not None:
                progress.found_done.add(name)
            elif len(progress.running) < self._executor.slots:
                progress.running[name] = time.time()
                self._executor.submit(self._folder.announce(unit))
                self._on_change(progress)

    def _end(self, ended: Ended) -> None:
        progress = self.progress
        name = next(name for name in progress.running if self._folder.todo(name) == ended.todo)
        if ended.error is None:
            record = self._folder.record(name)
            assert record is not None, name
            progress.done[name] = record.seconds
        elif ended.died and (tries := self._tries[name] + 1) < TRIES:
            log.warning("warning: %s: %s; trying it again", name, ended.error)
            self._tries[name] = tries
        else:
            log.error("error: %s: %s", name, ended.error)
            progress.failed[name] = ended.error
        del progress.running[name]
        self._on_change(progress)
        self._look()

    def _tell(self, last: bool = False) -> None:
        """Write the status for others to read."""
        if not last and time.monotonic() - self._told < _SECONDS:
            return
        self._told = time.monotonic()
        progress = self.progress
        write_json_atomic(
            self._folder.path / STATUS,
            {
                "stages": progress.by_stage(),
                "running": progress.running,
                "failed": progress.failed,
                "finished": last,
            },
        )
