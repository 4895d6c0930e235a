"""Where units of work run: processes of this machine, Slurm or Ray. They know nothing of the units.

An executor is a class derived from `RecipeExecutor` in a file of this folder. `mexma run` and its help learn
of it from `executors`, and wait for its file: what takes time to import is imported in its functions.
"""

from __future__ import annotations

import pkgutil
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

from mexma_cli.stages.run.executor import Executor

if TYPE_CHECKING:
    from mexma_cli.settings.corpus import CorpusRecipe
    from mexma_cli.stages.run.estimate import Estimate


class Forecast(NamedTuple):
    """What a dry run says of an executor: in JSON, as lines with a word before each, and as warnings."""

    facts: Mapping[str, Any] = {}
    lines: Sequence[tuple[str, str]] = ()
    warnings: Sequence[str] = ()


class RecipeExecutor(Executor):
    """An executor that a recipe has the settings of, under its `name`; `about` says in the help where it runs
    units. One that `is_here` has as many processes on this machine as `--jobs` says."""

    name: ClassVar[str]
    about: ClassVar[str]
    is_here: ClassVar[bool] = False

    @classmethod
    @abstractmethod
    def from_recipe(cls, recipe: CorpusRecipe, folder: Path, jobs: int) -> Self:
        """The executor of a run in this folder; refused: settings that it cannot follow."""

    @classmethod
    def forecast(cls, recipe: CorpusRecipe, work: Estimate) -> Forecast:
        """What a dry run, which submits nothing, says of this executor for the estimate `work`."""
        return Forecast()


@cache
def executors() -> Mapping[str, type[RecipeExecutor]]:
    """The executors of this folder by name."""
    for module in pkgutil.iter_modules(__path__):
        import_module(f"{__name__}.{module.name}")
    return dict(sorted((kind.name, kind) for kind in RecipeExecutor.__subclasses__()))
