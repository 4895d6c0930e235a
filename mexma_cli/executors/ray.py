"""Units of work as tasks of Ray. Paths go through Ray, never vectors.

Ray's own retries are off: a task that is lost is handed in again by the run, at most as often as everywhere.
Units that embed have a GPU where the recipe says so, in actors that hold the encoder.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from mexma_cli.errors import MexmaError, in_a_line, require
from mexma_cli.executors import Forecast, RecipeExecutor
from mexma_cli.executors.worker import attempt
from mexma_cli.stages.run.executor import Ended
from mexma_cli.text.amounts import counted

if TYPE_CHECKING:
    from mexma_cli.settings.corpus import CorpusRecipe, RaySettings
    from mexma_cli.stages.run.estimate import Estimate

log = logging.getLogger(__name__)


class RayExecutor(RecipeExecutor):
    """Tasks on a cluster that is there, or on one that is started here for as long as the run goes. All nodes
    see the run's folder. Refused where Ray is not installed, or no cluster answers at the address."""

    name, about = "ray", "on Ray"

    def __init__(self, run: Path, settings: RaySettings) -> None:
        require("ray", "ray", "--executor ray")
        import ray

        self._ray, self._run, self._settings = ray, run.absolute(), settings
        self._started = not ray.is_initialized()
        if self._started:
            try:
                found = ray.init(address=settings.address, logging_level=logging.ERROR, log_to_driver=False)
            except (ConnectionError, RuntimeError, ValueError) as error:
                if settings.address is None:
                    raise
                raise MexmaError(
                    f"no Ray cluster at `ray.address: {settings.address}` ({in_a_line(error)[:120]})",
                    "`ray start --head` starts one; without `ray.address` the run starts its own",
                ) from None
            log.info("Ray: logs in %s/logs", found.address_info["session_dir"])
            if found.dashboard_url:
                log.info("Ray: dashboard at http://%s", found.dashboard_url)
        if all(node["Resources"].get("CPU", 0) < settings.cpus for node in ray.nodes() if node["Alive"]):
            log.warning(
                "Ray: no node has %s, so that nothing is done until one joins (`ray.cpus`)",
                counted(settings.cpus, "core"),
            )
        self._task = ray.remote(num_cpus=settings.cpus, max_retries=0)(attempt)
        self._actors: list[Any] = []
        self._work: dict[Any, tuple[Path, Any]] = {}  # what Ray gives back -> the unit, and its actor or None

    @classmethod
    def from_recipe(cls, recipe: CorpusRecipe, folder: Path, jobs: int) -> Self:
        """By the section `ray` of a recipe."""
        return cls(folder, recipe.ray)

    @classmethod
    def forecast(cls, recipe: CorpusRecipe, work: Estimate) -> Forecast:
        """How many units there are, and their cores."""
        units, cores = counted(sum(work.left.values()), "unit"), counted(recipe.ray.cpus, "core")
        return Forecast(lines=[("Ray", f"{units}, {cores} each; nothing was submitted")])

    @property
    def slots(self) -> int:
        """Twice what the cluster has room for, so that no node waits for the run."""
        cpus = int(self._ray.cluster_resources().get("CPU", 1))
        return max(2, 2 * cpus // self._settings.cpus)

    def submit(self, todo: Path) -> None:
        """Take a unit."""
        from mexma_cli.stages.run.plan import read_unit

        unit, actor = todo.absolute(), None
        if self._settings.gpus and read_unit(unit).on_gpu:
            actor = self._free_actor()
            given_back = actor.attempt.remote(self._run, unit)
        else:
            given_back = self._task.remote(self._run, unit)
        self._work[given_back] = todo, actor

    def ended(self, seconds: float) -> Sequence[Ended]:
        """The units that have ended; waits so long for one to end."""
        ready, _ = self._ray.wait(list(self._work), timeout=seconds)
        found = []
        for given_back in ready:
            todo, actor = self._work.pop(given_back)
            try:
                said = self._ray.get(given_back)
                found.append(Ended(todo, said["error"], said["died"]))
            except self._ray.exceptions.RayError as error:  # the worker died, or its node
                found.append(Ended(todo, f"its worker died ({type(error).__name__})", died=True))
                self._actors = [one for one in self._actors if one is not actor]
        return found

    def stop(self) -> None:
        """Cancel all tasks."""
        for given_back, (_, actor) in self._work.items():
            if actor is None:
                self._ray.cancel(given_back, force=True)
        for actor in self._actors:
            self._ray.kill(actor)
        self._work.clear()
        self._actors.clear()
        if self._started and self._ray.is_initialized():
            self._ray.shutdown()

    def _free_actor(self) -> Any:
        """The actor with the fewest units: a new one as long as there are GPUs."""
        gpus = int(self._ray.cluster_resources().get("GPU", 0) // self._settings.gpus)
        if len(self._actors) < max(1, gpus):
            kind = self._ray.remote(num_cpus=self._settings.cpus, num_gpus=self._settings.gpus)(_Embedder)
            self._actors.append(kind.remote())
        load = [sum(actor is one for _, actor in self._work.values()) for one in self._actors]
        return self._actors[load.index(min(load))]


class _Embedder:
    """A process with a GPU, which does units one after the other and keeps the encoder."""

    def attempt(self, run: Path, todo: Path) -> dict[str, object]:
        return attempt(run, todo)
