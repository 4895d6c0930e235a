"""Hands the units of a plan to an executor, each when its inputs are done, until nothing is left to do."""

from __future__ import annotations

import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mexma_cli.errors import MexmaError
from mexma_cli.files import read_json, write_json_atomic
from mexma_cli.stages.run.executor import Ended, Executor
from mexma_cli.stages.run.plan import pieces_of
from mexma_cli.stages.run.texts import Pieces
from mexma_cli.stages.run.units import Kind, Record, RunFolder, Unit

log = logging.getLogger(__name__)

TRIES = 3
"""How often a unit is tried whose worker dies."""
STATUS = "status.json"
_SECONDS = 1.0  # that the executor may take to say what has ended, and between two writings of the status


@dataclass
class Progress:
    """The units that a run has done, does and has failed to do.

    Attributes:
        units: All that are known yet, by name, each after its inputs.
        found_done: Units that were done already.
        done: Units that this run has done -> the seconds that they took.
        running: Units in work -> when they were submitted (`time.time`).
        failed: Units that cannot be done -> why.
        blocked: Units that need one of those.
        goals: Units that all is done for, whether or not they are known yet.
        warnings: What workers warned of.
        died: Units whose worker died -> how often.
        began: When the run began (`time.time`).
    """

    units: dict[str, Unit] = field(default_factory=dict)
    found_done: set[str] = field(default_factory=set)
    done: dict[str, float] = field(default_factory=dict)
    running: dict[str, float] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    blocked: set[str] = field(default_factory=set)
    goals: Sequence[str] = ()
    warnings: set[str] = field(default_factory=set)
    died: Counter[str] = field(default_factory=Counter)
    began: float = field(default_factory=time.time)
    _counts: dict[str, Counter[str]] = field(default_factory=dict)

    def add(self, unit: Unit) -> None:
        """Take a unit into account."""
        self.units[unit.name] = unit
        self.count(unit.name, "all")

    def count(self, name: str, state: str, by: int = 1) -> None:
        """One more unit (or less) of this unit's stage is in a state."""
        self._counts.setdefault(self.units[name].stage, Counter())[state] += by

    def by_stage(self) -> dict[str, dict[str, int]]:
        """Stage -> how many units there are (`all`), and how many are done, running, failed and blocked."""
        return {stage: dict(+counts) for stage, counts in self._counts.items()}

    def missed(self) -> list[str]:
        """Goals that are not reached."""
        return [name for name in self.goals if not self.is_done(name)]

    def is_done(self, name: str) -> bool:
        """Whether a unit is done, by this run or before."""
        return name in self.done or name in self.found_done

    def records(self, folder: RunFolder) -> Iterator[tuple[Unit, Record]]:
        """The units that are done, with their records."""
        for name, unit in self.units.items():
            if self.is_done(name) and (record := folder.record(name)) is not None:
                yield unit, record


def is_status(path: Path) -> bool:
    """Whether a file is a run's status."""
    try:
        found = read_json(path)
    except MexmaError:
        return False
    return isinstance(found, dict) and found.keys() == {"stages", "running", "failed", "pairs", "finished"}


class Scheduler:
    """Runs a plan to its end: a function from how texts are cut to all kinds of units that can be told yet,
    each after its inputs. `taken` tells whether a unit's output is taken as it is, up to date or not."""

    def __init__(
        self,
        folder: RunFolder,
        plan: Callable[[Callable[[str], Pieces | None]], list[Kind]],
        executor: Executor,
        on_change: Callable[[Progress], None] = lambda progress: None,
        taken: Callable[[Unit], bool] = lambda unit: False,
        goals: Sequence[str] = (),
    ) -> None:
        self._folder, self._plan, self._executor, self._on_change = folder, plan, executor, on_change
        self._taken = taken
        self.progress = Progress(goals=goals)
        self._kinds: set[str] = set()  # that are listed
        self._ready: deque[str] = deque()  # all that they need is done
        self._waiting: deque[str] = deque()  # of these, which are not up to date
        self._needed_by: dict[str, list[str]] = {}
        self._missing: dict[str, int] = {}  # units that wait -> how many of their inputs are not done
        self._submitted: dict[Path, str] = {}
        self._checksums: dict[str, str] = {}  # of the outputs of units that are done
        self._told = 0.0

    def run(self, begin: Callable[[], object] = lambda: None) -> Progress:
        """Do all that can be done; what fails, and what needs it, is left and named. `begin` is called before
        the first unit is handed in, when nothing is in the way: something that is not the run's where an
        output goes is refused, and nothing changed."""
        try:
            self.look()
            if self._waiting:
                self._check_outputs()
            begin()
            self._submit()
            while self.progress.running:
                for ended in self._executor.ended(_SECONDS):
                    self._end(ended)
                self._submit()
                self._write_status()
        except BaseException:
            self._executor.stop()
            raise
        for name in self.progress.found_done:
            self._folder.tidy(self.progress.units[name])
        self._write_status(last=True)
        return self.progress

    def _check_outputs(self) -> None:
        """Refuse what is not the run's and is in the way of something that is to be done."""
        likely = Pieces(1, 1)  # of a text that is not cut yet: outputs of all kinds follow from it
        for kind in self._plan(lambda code: pieces_of(self._folder.record, code) or likely):
            for unit in kind.units():
                if not self.progress.is_done(unit.name):
                    self._folder.own_files(unit)

    def look(self) -> Progress:
        """Find out what is up to date; nothing is changed."""
        self._add_units()
        self._skip_done()
        return self.progress

    def _add_units(self) -> None:
        """Take over what is known of the plan."""
        progress = self.progress
        for kind in self._plan(lambda code: pieces_of(self._done, code)):
            if kind.name in self._kinds:
                continue
            self._kinds.add(kind.name)
            for unit in kind.units():
                progress.add(unit)
                needs = set(unit.needs.values())
                for other in needs:
                    self._needed_by.setdefault(other, []).append(unit.name)
                self._missing[unit.name] = sum(not progress.is_done(other) for other in needs)
                if any(other in progress.failed or other in progress.blocked for other in needs):
                    self._block(unit.name)
                elif not self._missing[unit.name]:
                    self._ready.append(unit.name)

    def _done(self, name: str) -> Record | None:
        return self._folder.record(name) if self.progress.is_done(name) else None

    def _skip_done(self) -> None:
        """Take what is up to date for done, as far as that can be told yet."""
        while self._ready:
            name = self._ready.popleft()
            unit = self.progress.units[name]
            if (record := self._up_to_date(unit)) is not None:
                self.progress.found_done.add(name)
                self._finish(unit, record)
            else:
                self._waiting.append(name)

    def _submit(self) -> None:
        """Hand in what can begin, and pass over what is up to date."""
        progress = self.progress
        self._skip_done()
        while self._waiting and len(progress.running) < self._executor.slots:
            name = self._waiting.popleft()
            progress.running[name] = time.time()
            progress.count(name, "running")
            todo = self._folder.announce(progress.units[name])
            self._submitted[todo] = name
            self._executor.submit(todo)
        self._on_change(progress)

    def _up_to_date(self, unit: Unit) -> Record | None:
        if not self._taken(unit):
            return self._folder.done(unit, checksum_of=self._checksums.__getitem__)
        record = self._folder.record(unit.name)
        if record is None:
            raise MexmaError(
                f"--from takes {unit.name} as it is, and no run has made it",
                "name an earlier stage with --from",
            )
        return record

    def _finish(self, unit: Unit, record: Record) -> None:
        """A unit is done: what needs it may begin."""
        self._checksums[unit.name] = record.checksum
        self.progress.count(unit.name, "done")
        for other in self._needed_by.get(unit.name, ()):
            self._missing[other] -= 1
            if not self._missing[other]:
                self._ready.append(other)
        if unit.grows:
            self._add_units()

    def _end(self, ended: Ended) -> None:
        progress, name = self.progress, self._submitted.pop(ended.todo)
        del progress.running[name]
        progress.count(name, "running", -1)
        progress.died[name] += ended.died
        if ended.error is None:
            record = self._folder.record(name)
            assert record is not None, name
            progress.done[name] = record.seconds
            self._warn(record.facts.get("warning"))
            self._finish(progress.units[name], record)
        elif ended.died and progress.died[name] < TRIES:
            log.warning("%s: %s; trying it again", name, ended.error)
            self._ready.append(name)
        else:
            log.error("error: %s: %s", name, ended.error)
            progress.failed[name] = ended.error
            progress.count(name, "failed")
            for other in self._needed_by.get(name, ()):
                self._block(other)

    def _warn(self, warning: str | None) -> None:
        """Pass on what a worker warns of, once."""
        if warning is not None and warning not in self.progress.warnings:
            self.progress.warnings.add(warning)
            log.warning("%s", warning)

    def _block(self, name: str) -> None:
        """A unit cannot be done, since what it needs cannot."""
        if name not in self.progress.blocked:
            self.progress.blocked.add(name)
            self.progress.count(name, "blocked")
            for other in self._needed_by.get(name, ()):
                self._block(other)

    def _write_status(self, last: bool = False) -> None:
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
                "pairs": {"all": len(progress.goals), "done": len(progress.goals) - len(progress.missed())},
                "finished": last,
            },
        )
