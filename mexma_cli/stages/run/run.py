"""A corpus run: a recipe in, parallel text of all its language pairs out."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from mexma_cli.errors import MexmaError
from mexma_cli.files import make_parent, only_writer, read_json
from mexma_cli.recipe import CorpusRecipe
from mexma_cli.stages.run.plan import STAGES, Records, check_settings, inputs_of, plan
from mexma_cli.stages.run.scheduler import STATUS, Executor, Progress, Scheduler
from mexma_cli.stages.run.units import RunFolder, Unit
from mexma_cli.text.writing import write_chunks

log = logging.getLogger(__name__)

RECIPE = "recipe.yaml"


def run_corpus(
    recipe: CorpusRecipe,
    executor: Callable[[Path], Executor],
    *,
    only: str | None = None,
    on_change: Callable[[Progress], None] = lambda progress: None,
) -> Progress:
    """Do all units of a recipe that are not up to date.

    Args:
        executor: Makes where they run, for the run's folder.
        only: A stage: its units, and those that they need.
        on_change: Called when a unit begins or ends.

    Raises:
        MexmaError: An input is missing, another process runs the same recipe, or units failed; the message
            names the first of them.
    """
    check_settings(recipe)
    inputs = inputs_of(recipe)
    folder = RunFolder(Path(recipe.run))
    make_parent(folder.path / RECIPE)
    with only_writer(folder.path):
        write_chunks([folder.path / RECIPE], [((recipe.to_yaml(),), 0)])

        def units(record: Records) -> list[Unit]:
            return upto(plan(recipe, inputs, record), only)

        workers = executor(folder.path)
        try:
            progress = Scheduler(folder, units, workers, on_change).run()
        finally:
            workers.stop()
    if progress.failed:
        name, why = next(iter(progress.failed.items()))
        more = f" (and {len(progress.failed) - 1:,} more)" if len(progress.failed) > 1 else ""
        raise MexmaError(
            f"{name}{more}: {why}", "what is done is kept; mend it, and the same command does the rest"
        )
    return progress


def upto(units: list[Unit], stage: str | None) -> list[Unit]:
    """The units of a stage, and those that they need; all of them without a stage.

    Raises:
        MexmaError: There is no such stage.
    """
    if stage is None:
        return units
    if stage not in STAGES:
        raise MexmaError(f"no stage {stage!r}", f"stages: {', '.join(STAGES)}")
    wanted: set[str] = set()
    earlier = STAGES[: STAGES.index(stage) + 1]
    for unit in reversed(units):
        # What is not known yet will be needed, so all of earlier stages is while the plan grows.
        if unit.stage == stage or unit.name in wanted or (unit.stage in earlier and unit.stage == "split"):
            wanted |= {unit.name, *unit.needs.values()}
    return [unit for unit in units if unit.name in wanted]


def status_of(recipe: CorpusRecipe) -> dict[str, Any]:
    """What a run that goes on, or has ended, has written of itself.

    Raises:
        MexmaError: It has not begun.
    """
    path = Path(recipe.run) / STATUS
    if not path.is_file():
        raise MexmaError(f"{recipe.run}: this run has not begun", "`mexma run` begins it")
    return dict(read_json(path))


def outputs(recipe: CorpusRecipe, units: Iterable[Unit]) -> list[Path]:
    """The folders of the sentence pairs that a run made."""
    return [Path(recipe.run) / unit.output for unit in units if unit.work == "mine"]
