"""Units of work as tasks of Slurm's job arrays.

The scripts, and the lists of units that their tasks do, stay in the run's folder, ``slurm/``. A task says in
a file how each of its units ended; a unit whose task is gone without having said so has died.
"""

from __future__ import annotations

import logging
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from mexma_cli.errors import MexmaError
from mexma_cli.executors import Forecast, RecipeExecutor
from mexma_cli.executors.worker import ending_of, line_of
from mexma_cli.files import read_json, whole_file
from mexma_cli.stages.run.executor import Ended
from mexma_cli.text.amounts import counted, hours_needed, size, time_needed

if TYPE_CHECKING:
    from mexma_cli.settings.corpus import CorpusRecipe, SlurmSettings
    from mexma_cli.stages.run.estimate import Estimate

log = logging.getLogger(__name__)

_LOOK = 15.0  # seconds between two questions to Slurm
_GRACE = 30.0  # seconds after which a task that is gone, and its file not there, has died: NFS is slow
_CONTROL = re.compile(r"[\0-\x1f\x7f]")
_NO_CONTROLLER = re.compile("configuration source|fetch config|[Uu]nable to contact slurm controller")
_TIME = re.compile(r"(?:\d+-)?\d+(?::\d+){0,2}")
_SECONDS = (86400, 3600, 60, 1)
_OPTION = re.compile(r"--?[A-Za-z][A-Za-z0-9-]*(=.*)?")
_MEMORY = re.compile(r"--mem(-per-cpu)?=(\d+)([KMGT]?)B?", re.IGNORECASE)
_CPUS = re.compile(r"--?([cn])(?:pus-per-task=|tasks=)?(\d+)")

SCRIPT = """\
#!/bin/bash
#SBATCH --job-name={name}
#SBATCH --array=0-{last}{at_once}
#SBATCH {output}
{options}
# Task N does the lines N, N + {tasks}, ... of {batch}.txt, one after the other.
set -e
{setup}
exec {python} -m mexma_cli.executors.worker {run} --units {units} \\
  --task "$SLURM_ARRAY_TASK_ID" --tasks {tasks}
"""


class SlurmExecutor(RecipeExecutor):
    """Job arrays, submitted as units become ready. All nodes see the run's folder. Refused where there is no
    `sbatch`, or a name or setting cannot go into its scripts."""

    name, about = "slurm", "in Slurm's job arrays"

    def __init__(self, run: Path, settings: SlurmSettings) -> None:
        if shutil.which("sbatch") is None:
            raise MexmaError("no sbatch here, so this machine submits nothing to Slurm", "--executor local")
        self._run, self._settings = run.absolute(), settings
        _check(str(self._run), settings)
        self._folder = self._run / "slurm"
        self._folder.mkdir(exist_ok=True)
        self._new: list[Path] = []
        self._task_of: dict[Path, str] = {}  # units in work -> the task that does them, such as 123_4
        self._gone: dict[Path, float] = {}  # units whose task is not there any more -> since when
        self._asked = 0.0

    @classmethod
    def from_recipe(cls, recipe: CorpusRecipe, folder: Path, jobs: int) -> Self:
        """By the section `slurm` of a recipe."""
        return cls(folder, recipe.slurm)

    @classmethod
    def forecast(cls, recipe: CorpusRecipe, work: Estimate) -> Forecast:
        """What would be submitted, `planned`, and where a task would be ended before its units are done."""
        plan, lines = planned(Path(recipe.run), recipe.slurm, work.left), []
        for stage, arrays in plan["arrays"].items():
            tasks, memory = counted(plan["tasks"][stage], "task"), size(work.unit_memory[stage])
            said = f"{tasks} in {counted(arrays, 'array')}, at least; a task takes about {memory}"
            lines.append((f"Slurm, {stage}", said))
        lines += [("sbatch", " ".join(plan["options"])), ("logs", plan["logs"])]
        lines.append(("submitted", "nothing" + ("" if plan["sbatch"] else "; there is no sbatch here")))
        return Forecast({"slurm": plan}, lines, list(_too_narrow(recipe.slurm, plan["arrays"], work)))

    @property
    def slots(self) -> int:
        """All that is ready: Slurm has a queue of its own."""
        return 1 << 30

    def submit(self, todo: Path) -> None:
        """Take a unit; it is submitted together with others that are ready."""
        ending_of(todo).unlink(missing_ok=True)
        self._new.append(todo)

    def ended(self, seconds: float) -> Sequence[Ended]:
        """The units that have ended; looks once a second, and asks Slurm now and then what is gone."""
        self._submit()
        until = time.monotonic() + seconds
        while not (found := self._found()) and time.monotonic() < until:
            time.sleep(min(0.2, seconds))
        for one in found:
            del self._task_of[one.todo]
            self._gone.pop(one.todo, None)
        return found

    def stop(self) -> None:
        """Cancel all jobs."""
        if jobs := sorted({task.partition("_")[0] for task in self._task_of.values()}):
            subprocess.run(["scancel", *jobs], check=False, capture_output=True)
        self._task_of.clear()

    def _found(self) -> list[Ended]:
        found = []
        for todo in self._task_of:
            if (path := ending_of(todo)).is_file():
                said = read_json(path)
                found.append(Ended(todo, said["error"], said["died"]))
        return found or self._dead()

    def _dead(self) -> list[Ended]:
        now = time.monotonic()
        if now - self._asked < _LOOK or not self._task_of:
            return []
        self._asked, there = now, self._tasks_there()
        if there is None:
            return []
        for todo, task in self._task_of.items():
            if task in there:
                self._gone.pop(todo, None)
            else:
                self._gone.setdefault(todo, now)
        return [
            Ended(todo, f"its task, {self._task_of[todo]}, is gone; its log is in {self._folder}", died=True)
            for todo, since in self._gone.items()
            if now - since >= _GRACE
        ]

    def _tasks_there(self) -> set[str] | None:
        """The tasks that wait or run; None if Slurm does not answer."""
        jobs = ",".join(sorted({task.partition("_")[0] for task in self._task_of.values()}))
        asked = subprocess.run(
            ["squeue", "--noheader", "--array", "--format=%i", f"--jobs={jobs}"],
            check=False,
            capture_output=True,
            text=True,
            errors="backslashreplace",
        )
        # Slurm forgets jobs that ended some time ago, and then says that their number is wrong.
        if asked.returncode and "Invalid job id" not in asked.stderr:
            log.warning("squeue: %s", asked.stderr.strip())
            return None
        return set(asked.stdout.split())

    def _submit(self) -> None:
        """All new units as one array, of no more tasks than Slurm takes."""
        if not self._new:
            return
        units, self._new = self._new, []
        batch = f"batch-{len(list(self._folder.glob('batch-*.sh'))):05d}"
        tasks = min(len(units), self._settings.array)
        listed, script = self._folder / f"{batch}.txt", self._folder / f"{batch}.sh"
        with whole_file(listed) as file:
            file.write("".join(line_of(unit.absolute()) for unit in units).encode())
        with whole_file(script) as file:
            file.write(os.fsencode(self._script(batch, listed, tasks)))
        asked = subprocess.run(
            ["sbatch", "--parsable", str(script)],
            check=False,
            capture_output=True,
            text=True,
            errors="backslashreplace",
        )
        if asked.returncode:
            said = asked.stderr.strip()
            if _NO_CONTROLLER.search(said):
                raise MexmaError(
                    f"Slurm does not answer on this machine ({said.splitlines()[-1][:120]})",
                    "submit from a login node of the cluster, or run here with --executor local",
                )
            raise MexmaError(f"sbatch {script}: {said}", "change `slurm` in the recipe")
        job = asked.stdout.strip().partition(";")[0]
        log.info("%s: %d units in %d tasks of job %s", batch, len(units), tasks, job)
        self._task_of |= {unit: f"{job}_{place % tasks}" for place, unit in enumerate(units)}

    def _script(self, batch: str, units: Path, tasks: int) -> str:
        """Bash, and `#SBATCH` lines, which sbatch takes apart as a shell would: all is quoted but `setup`."""
        settings = self._settings
        return SCRIPT.format(
            name=_job_name(self._run),
            last=tasks - 1,
            at_once=f"%{settings.at_once}" if settings.at_once else "",
            output=shlex.quote(f"--output={self._folder}/{batch}-%a.log"),
            batch=batch,
            options="".join(f"#SBATCH {shlex.quote(option)}\n" for option in settings.options),
            tasks=tasks,
            setup=settings.setup,
            python=shlex.quote(settings.python or sys.executable),
            run=shlex.quote(str(self._run)),
            units=shlex.quote(str(units)),
        )


def planned(run: Path, settings: SlurmSettings, left: Mapping[str, int]) -> dict[str, Any]:
    """Count the job arrays that a run in this folder would submit, with so many units of each kind to do.
    Nothing is submitted, and no Slurm is needed; names and settings are refused as by `SlurmExecutor`.

    Returns:
        `arrays` and `tasks`: stage -> how many there are at least: units that become ready later than others
        of their kind are one more array. `options` of sbatch, the same for all arrays, `logs`, and whether
        `sbatch` is found here.
    """
    from mexma_cli.stages.run.plan import KINDS

    run = run.absolute()
    _check(str(run), settings)
    arrays, tasks = Counter[str](), Counter[str]()
    for work, units in left.items():
        arrays[KINDS[work].stage] += 1
        tasks[KINDS[work].stage] += min(units, settings.array)
    at_once = [f"--array=0-N%{settings.at_once}"] if settings.at_once else []
    return {
        "arrays": dict(arrays),
        "tasks": dict(tasks),
        "options": [f"--job-name={_job_name(run)}", *at_once, *settings.options],
        "logs": f"{run}/slurm/batch-*-TASK.log",
        "sbatch": shutil.which("sbatch") is not None,
    }


def _too_narrow(settings: SlurmSettings, stages: Iterable[str], work: Estimate) -> Iterator[str]:
    """Warnings where a task would be ended for the memory of a unit, or before the longest unit is done, or
    those that share it."""
    memory = memory_limit(settings)
    for stage in stages:
        if memory is not None and memory < (needed := work.unit_memory[stage]):
            yield (
                f"slurm.options: --mem gives a task {size(memory)}, and a unit of {stage} takes about "
                f"{size(needed)}"
            )
    longest, limit = work.longest, time_limit(settings)
    units = -(-work.works[longest["work"]]["units"] // settings.array)
    if limit is not None and limit < 3600 * units * longest["hours"]:
        yield (
            f"slurm.options: --time is {time_needed(limit)}, and a task of {counted(units, 'unit')} "
            f"({longest['work']}) takes {hours_needed(units * longest['hours'])} of a core"
        )


def memory_limit(settings: SlurmSettings) -> int | None:
    """Bytes of `--mem`, or of `--mem-per-cpu` for all processors of a task; None: without, or 0, which is all
    memory of a node. Slurm counts in MiB where no unit is named."""
    found = [match for option in settings.options if (match := _MEMORY.fullmatch(option))]
    if not found:
        return None
    each, number, unit = found[-1].groups()
    cpus = {match[1]: match[2] for option in settings.options if (match := _CPUS.fullmatch(option))}
    size = int(number) << 10 * (1 + "KMGT".index(unit.upper() or "M"))
    return (size * prod(map(int, cpus.values())) if each else size) or None


def time_limit(settings: SlurmSettings) -> int | None:
    """Seconds of `--time`: minutes[:seconds], hours:minutes:seconds or days-hours[:...]; None: without."""
    times = [option.removeprefix("--time=") for option in settings.options if option.startswith("--time=")]
    if not times or not _TIME.fullmatch(times[-1]):
        return None
    numbers = list(map(int, re.split("[-:]", times[-1])))
    first = 0 if "-" in times[-1] else 1 if len(numbers) == 3 else 2
    return sum(number * size for number, size in zip(numbers, _SECONDS[first:], strict=False)) or None


def _job_name(run: Path) -> str:
    return f"mexma-{re.sub('[^A-Za-z0-9._-]+', '_', run.name)}"


def _check(run: str, settings: SlurmSettings) -> None:
    """Refuse what no quotes keep from being more than a name, or an option, to Slurm."""
    if found := re.search(rf"[%\\]|{_CONTROL.pattern}", run):
        raise MexmaError(
            f"run: {run}: Slurm does not take {found[0]!r} in the path of a run's folder",
            "name another folder, or rename the one around it",
        )
    for option in settings.options:
        if _CONTROL.search(option) or not _OPTION.fullmatch(option):
            raise MexmaError(
                f"slurm.options: {option!r} is no option of sbatch",
                "write each as --time=2:00:00, without quotes",
            )
    if _CONTROL.search(settings.python or ""):
        raise MexmaError(f"slurm.python: {settings.python!r} is no path", "name Python on the nodes")
