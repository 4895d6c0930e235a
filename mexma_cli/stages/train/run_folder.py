"""A training run's folder: which recipe and which pairs it belongs to, and whether a run may go on there."""

from __future__ import annotations

import logging
import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from mexma_cli.errors import MexmaError
from mexma_cli.files import check_outside_stores, make_folder, read_json, whole_file, write_json_atomic
from mexma_cli.settings.load import find_recipe, load, load_any
from mexma_cli.settings.training import DecomposeRecipe, Recipe
from mexma_cli.text.amounts import counted

Kept = TypeVar("Kept")
log = logging.getLogger(__name__)

RECIPE = "recipe.yaml"
OVERRIDES = "overrides.json"
"""What `--set` changed in the recipe that the run was started with."""
BATCHES = "pairs_per_step.json"
TEXT = "text.json"
"""Fingerprints of what the run was started with: the tokeniser and the prepared pairs, or the stores."""
HARMLESS = frozenset(
    {
        "log_every",
        "checkpoint_every",
        "keep",
        "dev_every",
        "device",
        "precision",
        "export",
        "sharding",
        "activation_checkpointing",
        "loggers",
        # as long as a step has as many pairs, which is checked for itself
        "batch_pairs",
        "accumulate",
    }
)
"""Trainer keys that may differ on --resume: the run stays the same."""
PLACES = frozenset({"run", "data.root", "data.store"})
"""Keys that may differ, since what is there is checked for itself (`TEXT`)."""


def load_for(source: str | Path, overrides: Sequence[str], resume: bool) -> Recipe | DecomposeRecipe:
    """The recipe to train by, as `load_any` reads it. That of a run to go on with has the overrides with
    which the run was started, too, below those that are given now."""
    recipe = load_any(source, overrides)
    run = Path(recipe.run)
    if not resume or not (run / RECIPE).is_file() or find_recipe(str(source)).samefile(run / RECIPE):
        return recipe
    before = _kept(run / OVERRIDES, list[str]) or []
    if (added := [one for one in before if one not in recipe.overrides]) and os.getenv("RANK", "0") == "0":
        said = shlex.join(part for one in added for part in ("--set", one))
        log.info("%s goes on with %s, as it was started", run, said)
    return load_any(source, [*before, *recipe.overrides]).but(run=recipe.run)


def claim(run: Path, recipe: Recipe, resume: bool, processes: int, text: dict[str, str]) -> None:
    """Keep the resolved recipe in the run's folder, or make sure that the one there is the same run's, with
    the same text (as in `TEXT`), each of whose steps so many processes share."""
    if here := check_run(run, recipe, resume, processes):
        same_text(
            run,
            text,
            "it needs the prepared pairs and the tokeniser that it began with: start anew with "
            "--set run=FOLDER, and keep a data.store for each text",
        )
    write_beginning(run, recipe, {BATCHES: pairs_per_step(recipe, processes), TEXT: text}, here)


def check_run(run: Path, recipe: Recipe, resume: bool, processes: int) -> bool:
    """Whether the folder holds this recipe's run already; nothing is written. Refused: a run (without
    `resume`), another recipe's, or one with another number of pairs a step (with it)."""
    here = check(run, recipe, resume, PLACES)
    if here:
        _same_batches(run, recipe, processes)
    return here


def check(
    run: Path, recipe: Recipe | DecomposeRecipe, resume: bool, places: frozenset[str] = frozenset({"run"})
) -> bool:
    """Whether the folder holds this recipe's run already; `places` are keys whose values may differ. Refused:
    a run (without `resume`), another recipe's, one whose recipe is gone, or a folder in a store."""
    check_outside_stores(run)
    kept = run / RECIPE
    if not kept.is_file():
        _nothing_else(run, recipe)
        return False
    if not resume:
        raise MexmaError(
            f"{run} holds a training run already",
            "--resume goes on with it; --set run=FOLDER starts another beside it",
        )
    before = load_any(kept)
    found = recipe_differences(before.model_dump(by_alias=True), recipe.model_dump(by_alias=True))
    if differing := [key + _values(was, now) for key, was, now in found if key not in places]:
        raise MexmaError(
            f"{run} was started with another recipe: {', '.join(differing)}",
            f"`mexma train {kept} --resume` goes on with its own settings; --set run=FOLDER starts anew",
        )
    return True


def _nothing_else(run: Path, recipe: Recipe | DecomposeRecipe) -> None:
    """Refuse a folder without a recipe whose checkpoints, encoders or log would pass for this recipe's."""
    parts = [run] if isinstance(recipe, DecomposeRecipe) else [run / phase.name for phase in recipe.phases]
    left_by_runs = [part / name for part in parts for name in ("checkpoints", "encoder")]
    for left in (*left_by_runs, run / "encoder", run / "log.jsonl"):
        if left.exists():
            raise MexmaError(
                f"{left} is of a run whose {RECIPE} is gone",
                f"put that back into {run}, or start anew with --set run=FOLDER",
            )


def write_beginning(run: Path, recipe: Recipe | DecomposeRecipe, facts: dict[str, Any], here: bool) -> None:
    """Write what a run begins with into its folder: `facts` by names of JSON files, and the resolved recipe
    last. Refused where it is not `here` yet, and a file of such a name has something else."""
    make_folder(run)
    if not here:
        facts = facts | {OVERRIDES: list(recipe.overrides)}
    for name, content in facts.items():
        if not here and (run / name).exists() and read_json(run / name) != content:
            raise MexmaError(f"{run / name} is not of this run", "move it, or start with --set run=FOLDER")
        write_json_atomic(run / name, content)
    with whole_file(run / RECIPE) as file:
        file.write(recipe.to_yaml().encode("utf-8"))


def same_text(run: Path, text: dict[str, str], hint: str) -> None:
    """Refuse to go on with other text (as in `TEXT`) than a run was started with."""
    before = text_of(run)
    other = sorted(name for name in before.keys() | text if before.get(name) != text.get(name))
    if before and other:
        more = f" and {len(other) - 4} more" * (len(other) > 4)
        raise MexmaError(f"{run} was started with other text: {', '.join(other[:4])}{more}", hint)


def text_of(run: Path) -> dict[str, str]:
    """The text that a run was started with, as in `TEXT`; nothing where it has not been started."""
    return _kept(run / TEXT, dict[str, str]) or {}


def _kept(path: Path, kind: type[Kept]) -> Kept | None:
    """The content of a file of a run; None if there is no file."""
    if not path.is_file():
        return None
    try:
        return TypeAdapter(kind).validate_python(read_json(path))
    except ValidationError:
        raise _damaged(path) from None


def _damaged(path: Path) -> MexmaError:
    return MexmaError(
        f"{path} is damaged",
        "remove it if text and settings are those of the start, or start anew with --set run=FOLDER",
    )


def finished(run: Path, phase: str) -> bool:
    """Whether a phase has been trained to its end."""
    return (run / phase / "encoder" / "config.json").is_file()


def pairs_per_step(recipe: Recipe, processes: int) -> dict[str, int]:
    """Pairs in a step of each phase, of all processes together."""
    return {
        phase.name: phase.trainer.batch_pairs * phase.trainer.accumulate * processes
        for phase in recipe.phases
    }


def _same_batches(run: Path, recipe: Recipe, processes: int) -> None:
    """A step of what is left has as many pairs as before; how they are cut up is free."""
    now = pairs_per_step(recipe, processes)
    before = _kept(run / BATCHES, dict[str, int])
    if before is None:
        before = pairs_per_step(load(run / RECIPE), 1)
    if before.keys() != now.keys():
        raise _damaged(run / BATCHES)
    for phase in recipe.phases:
        if now[phase.name] != before[phase.name] and not finished(run, phase.name):
            trainer = phase.trainer
            raise MexmaError(
                f"{run} takes {before[phase.name]:,} pairs a step in phase {phase.name}, and batch_pairs "
                f"{trainer.batch_pairs} x accumulate {trainer.accumulate} x "
                f"{counted(processes, 'process', 'processes')} are {now[phase.name]:,}",
                "set trainer.batch_pairs or trainer.accumulate so that the product stays the same",
            )


def recipe_differences(old: Any, new: Any, key: str = "") -> list[tuple[str, Any, Any]]:
    """Keys of two recipes whose values differ, with both, but for those that do not change the run. A phase
    or a corpus is called by its name, as in --set."""
    if isinstance(old, dict) and isinstance(new, dict):
        inner = [
            recipe_differences(old.get(name), new.get(name), f"{key}.{name}" if key else name)
            for name in old | new
            if not (name in HARMLESS and key.endswith("trainer"))
        ]
        return [found for part in inner for found in part]
    if isinstance(old, list | tuple) and isinstance(new, list | tuple) and len(old) == len(new):
        pairs = enumerate(zip(old, new, strict=True))
        return [found for i, (a, b) in pairs for found in recipe_differences(a, b, f"{key}.{_name(a, i)}")]
    return [] if old == new else [(key, old, new)]


def _values(was: Any, now: Any) -> str:
    """Say both values of a setting, unless they are lists or sections."""
    short = all(value is None or isinstance(value, bool | int | float | str) for value in (was, now))
    return f" ({was}, now {now})" if short else ""


def _name(entry: Any, place: int) -> str:
    return str(entry["name"]) if isinstance(entry, dict) and "name" in entry else str(place)
