"""A training run's folder: which recipe it belongs to, and whether another one may go on there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mexma_cli.errors import MexmaError
from mexma_cli.recipe import DecomposeRecipe, Recipe, load, load_any
from mexma_cli.store.manifest import read_json, whole_file, write_json_atomic

RECIPE = "recipe.yaml"
BATCHES = "pairs_per_step.json"
HARMLESS = frozenset(
    {
        "log_every",
        "checkpoint_every",
        "keep",
        "dev_every",
        "device",
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


def claim(run: Path, recipe: Recipe, resume: bool, processes: int) -> None:
    """Keep the resolved recipe in the run's folder, or make sure that the one there is the same run's.

    Args:
        processes: How many share each step.

    Raises:
        MexmaError: The folder holds a run already (without `resume`), another recipe's, or one with another
            number of pairs a step (with it).
    """
    if check(run, recipe, resume):
        _same_batches(run, recipe, processes)
    run.mkdir(parents=True, exist_ok=True)
    write_json_atomic(run / BATCHES, _pairs_per_step(recipe, processes))
    keep(run, recipe)


def check(run: Path, recipe: Recipe | DecomposeRecipe, resume: bool) -> bool:
    """Whether the folder holds this recipe's run already.

    Raises:
        MexmaError: It does (without `resume`), or another recipe's (with it).
    """
    kept = run / RECIPE
    if not kept.is_file():
        return False
    if not resume:
        raise MexmaError(
            f"{run} holds a training run already",
            "--resume goes on with it; --set run=FOLDER starts another beside it",
        )
    if differing := differences(load_any(kept).model_dump(), recipe.model_dump()):
        raise MexmaError(
            f"{run} was started with another recipe: {', '.join(differing)}",
            f"resume with the same settings (they are in {kept}), or start anew with --set run=FOLDER",
        )
    return True


def keep(run: Path, recipe: Recipe | DecomposeRecipe) -> None:
    """Write the resolved recipe into the run's folder."""
    with whole_file(run / RECIPE) as file:
        file.write(recipe.to_yaml().encode("utf-8"))


def _pairs_per_step(recipe: Recipe, processes: int) -> dict[str, int]:
    return {
        phase.name: phase.trainer.batch_pairs * phase.trainer.accumulate * processes
        for phase in recipe.phases
    }


def _same_batches(run: Path, recipe: Recipe, processes: int) -> None:
    """A step has as many pairs as before; how they are cut up is free."""
    before = read_json(run / BATCHES) if (run / BATCHES).is_file() else _pairs_per_step(load(run / RECIPE), 1)
    now = _pairs_per_step(recipe, processes)
    for phase in recipe.phases:
        if now[phase.name] != before[phase.name]:
            trainer, plural = phase.trainer, "es" * (processes > 1)
            raise MexmaError(
                f"{run} takes {before[phase.name]:,} pairs a step in phase {phase.name}, and batch_pairs "
                f"{trainer.batch_pairs} x accumulate {trainer.accumulate} x {processes} process{plural} are "
                f"{now[phase.name]:,}",
                "set trainer.batch_pairs or trainer.accumulate so that the product stays the same",
            )


def differences(old: Any, new: Any, key: str = "") -> list[str]:
    """The keys of two recipes whose values differ, but for those that do not change the run."""
    if isinstance(old, dict) and isinstance(new, dict):
        inner = [
            differences(old.get(name), new.get(name), f"{key}.{name}" if key else name)
            for name in old | new
            if not (name in HARMLESS and key.endswith("trainer"))
        ]
        return [found for part in inner for found in part]
    if isinstance(old, list | tuple) and isinstance(new, list | tuple) and len(old) == len(new):
        pairs = enumerate(zip(old, new, strict=True))
        return [found for i, (a, b) in pairs for found in differences(a, b, f"{key}.{i}")]
    return [] if old == new else [key]
