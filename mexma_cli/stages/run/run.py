"""A corpus run: a recipe in, parallel text of all its language pairs out."""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

import yaml

from mexma_cli import limited_yaml
from mexma_cli.errors import MexmaError
from mexma_cli.files import check_parent, checksum_file, clear, is_held, make_parent, only_writer, read_json
from mexma_cli.settings.corpus import CorpusRecipe
from mexma_cli.settings.load import load_corpus
from mexma_cli.stages.mine.thresholds import FILE, StoredThreshold, read_thresholds, write_thresholds
from mexma_cli.stages.run.executor import Executor, InThisProcess
from mexma_cli.stages.run.page import PAGE, is_page, left_over, translations, write_page
from mexma_cli.stages.run.pairs import Mine, results_of
from mexma_cli.stages.run.plan import Selection, check_settings, inputs_of, pieces_of, read_unit
from mexma_cli.stages.run.remote import check_copies, check_destination, send, with_copies
from mexma_cli.stages.run.scheduler import STATUS, Progress, Scheduler, is_status
from mexma_cli.stages.run.texts import Inputs
from mexma_cli.stages.run.units import BITEXT, STAGES, RunFolder, Unit, in_the_way
from mexma_cli.text.amounts import counted
from mexma_cli.text.writing import write_chunks

log = logging.getLogger(__name__)

RECIPE = "recipe.yaml"
_NAMED = 5  # units that failed, or notes of units, in messages


def run_corpus(
    recipe: CorpusRecipe,
    executor: Callable[[Path], Executor],
    *,
    chosen: Selection | None = None,
    on_change: Callable[[Progress], None] = lambda progress: None,
) -> Progress:
    """Do all units of a recipe that are not up to date, and write the run's page; `executor` makes where they
    run, for the run's folder. Refused: an input that is missing, something else where results go, another
    process that runs the same recipe, results that cannot be copied to `output.to`. If units failed, the log
    has said why."""
    check_recipe(recipe)
    chosen = chosen or Selection()
    wanted, folder = with_copies(chosen.narrowed(recipe)), RunFolder(Path(recipe.run))
    inputs = inputs_of(wanted)
    check_copies(
        folder.path.absolute(), {path: sum_ for files in inputs.values() for path, sum_ in files.items()}
    )
    make_parent(folder.path / RECIPE)
    with only_writer(folder.path):

        def begin() -> None:
            log.info("the run's folder: %s", folder.path.absolute())
            folder.begin()
            for name in _OWN:
                clear(folder.path / name)  # a run was killed when it had just given one its name
            if not _is_recipe(folder.path / RECIPE, recipe):
                write_chunks([folder.path / RECIPE], [((recipe.to_yaml(),), 0)])

        workers = executor(folder.path)
        try:
            kinds, goals = partial(chosen.kinds, wanted, inputs), chosen.goals(wanted)
            progress = Scheduler(folder, kinds, workers, on_change, chosen.taken, goals).run(begin)
        finally:
            workers.stop()
        if chosen.everything and not progress.failed:
            folder.remove_others(progress.units.keys(), read_unit)
        _keep_thresholds(folder, progress, {*recipe.language_pairs()} - {*wanted.language_pairs()})
        if progress.goals:
            _tell_pairs(folder, recipe, progress)
        notes = write_page(folder, recipe, wanted, progress)
        for note in notes[:_NAMED]:
            log.warning("%s", note)
        if more := notes[_NAMED:]:
            log.warning("and %s more in %s", f"{len(more):,}", folder.path / PAGE)
    if progress.failed:
        pairs, missed = counted(len(progress.goals), "language pair"), len(progress.missed())
        left = f", which leaves {missed:,} of {pairs} without a result" if missed else ""
        names = ", ".join(islice(progress.failed, _NAMED))
        raise MexmaError(
            f"{counted(len(progress.failed), 'unit')} failed{left}: {names}",
            f"what is done is kept; mend it, and the same command does the rest ({folder.path / PAGE})",
        )
    if recipe.output.to is not None:
        send(_results(folder, progress), recipe.output.to, whole=chosen.everything)
        log.info("copied to %s", recipe.output.to)
    return progress


def check_recipe(recipe: CorpusRecipe) -> None:
    """Find out before the work whether a run of the recipe can begin: refused are settings that no stage
    knows, an `output.to` that cannot be reached, a folder that cannot be written, and something else where
    results or the run's own files go."""
    check_settings(recipe)
    if alone := {*recipe.languages} - {*chain(*recipe.language_pairs())}:
        log.warning("`languages`: in no pair, and not read: %s", ", ".join(sorted(alone)))
    if recipe.output.to is not None:
        check_destination(recipe.output.to, [*results_of(recipe), PAGE, FILE])
    folder = RunFolder(Path(recipe.run))
    check_parent(folder.path / RECIPE)
    folder.check_free()
    for name, of_a_run in _OWN.items():
        path, ours = folder.path / name, False
        with suppress(OSError):
            ours = folder.begun and path.is_file() and of_a_run(path)
        if os.path.lexists(path) and not ours and not (name == RECIPE and _is_recipe(path, recipe)):
            raise in_the_way(path)
    name = _resolved(folder.path / RECIPE).get("name") if folder.begun else None
    if name not in (None, recipe.name):
        log.warning(
            "%s is of the run %s, whose results are replaced; another `run` keeps both", folder.path, name
        )


def _is_thresholds(path: Path) -> bool:
    with suppress(MexmaError):
        return bool(read_thresholds(path))
    return False


def _resolved(path: Path) -> dict[str, Any]:
    """A recipe as runs write them: with all keys, and nothing but these; nothing of another file or none."""
    try:
        text = path.read_text(encoding="utf-8")
        raw = limited_yaml.parsed_yaml(text) if len(text) < limited_yaml.SIZE else None
    except (OSError, ValueError, yaml.YAMLError):
        return {}
    whole = isinstance(raw, dict) and {"kind", "languages", "units", "output"} <= raw.keys()
    return raw if whole and yaml.safe_dump(raw, sort_keys=False, allow_unicode=True) == text else {}


_OWN = {STATUS: is_status, PAGE: is_page, FILE: _is_thresholds, RECIPE: _resolved}
"""The files of a run that are in no record, and whether one that is there is of a run."""


def _is_recipe(path: Path, recipe: CorpusRecipe) -> bool:
    """Whether a file is this recipe, however it is written."""
    with suppress(MexmaError, OSError):
        return load_corpus(path) == recipe
    return False


def _results(folder: RunFolder, progress: Progress) -> dict[str, tuple[Path, str]]:
    """The results of a run, by their paths in the run's folder, with their checksums."""
    results = [record.files for unit, record in progress.records(folder) if unit.is_result]
    sums = {name: checksum for files in results for name, checksum in files.items()}
    sums |= {name: checksum_file(path) for name in (PAGE, FILE) if (path := folder.path / name).is_file()}
    return {name: (folder.path / name, checksum) for name, checksum in sums.items()}


def _tell_pairs(folder: RunFolder, recipe: CorpusRecipe, progress: Progress) -> None:
    """Say how many sentence pairs there are, how many of them are translations, and what earlier runs have
    left: files in other formats, and results of language pairs that the recipe has no longer."""
    records = [record for unit, record in progress.records(folder) if unit.is_result]
    pairs = sum(record.facts["pairs"] for record in records)
    log.info("%s of %s", counted(pairs, "sentence pair"), counted(len(records), "language pair"))
    if said := translations(recipe, (record.facts for record in records)):
        log.info("%s", said)
    if left := left_over(folder, recipe, progress):
        log.info("an earlier run left %s", left)


def _keep_thresholds(folder: RunFolder, progress: Progress, others: set[tuple[str, str]]) -> None:
    """Put all thresholds into one file, for `mexma mine --thresholds`, with those that earlier runs found for
    the recipe's other pairs; no file where no pair has one now."""
    facts = [record.facts for unit, record in progress.records(folder) if isinstance(unit, Mine)]
    found = [StoredThreshold.model_validate(one["threshold"]) for one in facts if one["threshold"]]
    path = folder.path / FILE
    if facts and (found or path.exists()):
        earlier = read_thresholds(path) if path.exists() else []
        kept = [*found, *(one for one in earlier if (one.source, one.target) in others)]
        if kept:
            write_thresholds(path, kept)
        else:
            path.unlink()


def look(recipe: CorpusRecipe, inputs: Inputs, chosen: Selection) -> Progress:
    """Find out which units are up to date, as far as they are known; nothing is changed."""
    folder, kinds = RunFolder(Path(recipe.run)), partial(chosen.kinds, recipe, inputs)
    here = InThisProcess(folder.path)
    return Scheduler(folder, kinds, here, taken=chosen.taken, goals=chosen.goals(recipe)).look()


def status_of(recipe: CorpusRecipe, chosen: Selection | None = None) -> dict[str, Any]:
    """The status that a run has written, and whether it goes on: `state` is running, finished, stopped, or
    unknown, where it has not finished and the file system has no locks that would tell. Of the units that
    workers were given, `waiting` are those that none has begun. Where nothing works on the run, the chosen
    units of the recipe are counted anew: `again` are those that were done, of inputs or settings that are
    others now, and `perhaps` those that are done again unless what they need comes out the same. Refused: a
    run that has not begun, and a choice among the units of one that goes on."""
    path = Path(recipe.run) / STATUS
    if not path.is_file() or not is_status(path):
        raise MexmaError(f"{recipe.run}: this run has not begun", "`mexma run` begins it")
    chosen = chosen or Selection()
    chosen.narrowed(recipe)  # which refuses pairs and stages that the recipe lacks
    held = is_held(path.parent)
    status = dict(read_json(path))
    ended = "finished" if status.pop("finished") else "unknown" if held is None else "stopped"
    if held is False:
        try:
            _count_anew(recipe, chosen, status)
        except MexmaError as error:
            log.warning("whether that is up to date is not known: %s", error.message)
    elif chosen != Selection():
        raise MexmaError(
            f"{recipe.run}: the status of a run that goes on is that of all its units",
            "leave out --pairs, --only and --from",
        )
    elif held:
        _tell_waiting(RunFolder(path.parent), status)
    return {"state": "running" if held else ended} | status


def _tell_waiting(folder: RunFolder, status: dict[str, Any]) -> None:
    for name in list(status["running"]):
        todo = folder.todo(name)
        with suppress(OSError, MexmaError):  # it is done by now
            if is_held(todo) is False:
                counts = status["stages"][read_unit(todo).stage]
                counts["running"] -= 1
                counts["waiting"] = counts.get("waiting", 0) + 1
                del status["running"][name]


def _count_anew(recipe: CorpusRecipe, chosen: Selection, status: dict[str, Any]) -> None:
    """Put the state of each chosen unit that the recipe has now into a status, which may be of others."""
    here, folder = with_copies(chosen.narrowed(recipe)), RunFolder(Path(recipe.run))
    inputs = inputs_of(here)
    now, blocked, stages = look(here, inputs, chosen), set[str](), dict[str, Counter[str]]()
    failed, cut = {}, partial(pieces_of, folder.record)  # also of texts that are to be cut again
    for kind in chosen.kinds(here, inputs, cut):
        for unit in kind.units():
            state = ""
            if now.is_done(unit.name):
                state = "done"
            elif unit.name in status["failed"]:
                state, failed[unit.name] = "failed", status["failed"][unit.name]
            elif any(name in blocked or name in status["failed"] for name in unit.needs.values()):
                state = "blocked"
                blocked.add(unit.name)
            elif unit.name in status["running"]:
                state = "running"
            elif folder.record(unit.name) is not None:
                state = "again" if all(map(now.is_done, unit.needs.values())) else "perhaps"
            stages.setdefault(kind.of.stage, Counter()).update(["all", *filter(None, [state])])
    status["failed"] = failed
    status["stages"] = {stage: dict(stages[stage]) for stage in STAGES if stage in stages}
    status["pairs"] = {"all": len(now.goals), "done": len(now.goals) - len(now.missed())}


def outputs(recipe: CorpusRecipe, units: Iterable[Unit]) -> list[Path]:
    """The folders of the sentence pairs that a run made, in the order of the recipe's language pairs."""
    made = {unit.output for unit in units if unit.is_result}
    folders = (f"{BITEXT}/{'-'.join(pair)}" for pair in recipe.language_pairs())
    return [Path(recipe.run) / folder for folder in folders if folder in made]
