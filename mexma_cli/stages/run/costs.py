"""Costs of units of work: a + b rows + c cells of each kind, measured once, scaled by what was done here."""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mexma_cli.errors import MexmaError, quieted
from mexma_cli.files import make_parent, read_manifest, write_json_atomic
from mexma_cli.settings.corpus import CorpusRecipe
from mexma_cli.stages.knn.search import EXACT
from mexma_cli.stages.run.plan import cut_of, inputs_of, plan
from mexma_cli.stages.run.run import run_corpus
from mexma_cli.stages.run.scheduler import InThisProcess
from mexma_cli.stages.run.units import Kind, RunFolder
from mexma_cli.store.folder import Frozen
from mexma_cli.text.lines import read_lines

FILE = "costs.json"
VERSION = 5
_LINES = 2000  # of every language in the run that is measured, and a quarter of that
_SORTED, _SORTING = 1 << 18, 0.0055  # numbers, and the seconds that sorting them took where COSTS are from


class Cost(NamedTuple):
    """Costs of one kind of work, in seconds of the processor, of all threads together.

    Attributes:
        start: Once in every process, to load what the work needs.
        unit: For each unit.
        row: For each row, or line, that its units read.
        cell: For each product that they compute, and each dimension.
        threads: Whether rows and cells are shared by all threads of the process.
    """

    start: float
    unit: float
    row: float
    cell: float = 0.0
    threads: bool = True

    def times(self, factor: float) -> Cost:
        """The cost on a machine that is slower by a factor."""
        start, unit, row, cell = (factor * number for number in self[:4])
        return Cost(start, unit, row, cell, self.threads)

    def of(self, units: float, rows: float, cells: float) -> float:
        """Seconds of so many units, which read so many rows and compute so many cells (times dimensions), but
        for the start."""
        return units * self.unit + rows * self.row + cells * self.cell

    def by_the_clock(self, amounts: tuple[float, float, float], jobs: int, threads: int) -> float:
        """Seconds by the clock of units, rows and cells as in `of`, with the start, in so many processes that
        share so many threads."""
        jobs = min(jobs, max(1, round(amounts[0])))
        alone, shared = self.of(amounts[0], 0, 0), self.of(0, *amounts[1:])
        return self.start + alone / jobs + shared / (threads if self.threads else jobs)


COSTS = {
    "split": Cost(1.0, 0.1, 6e-5),
    "cut": Cost(0.0, 0.01, 2e-6, threads=False),
    "embed": Cost(0.5, 0.02, 9e-5),
    "merge": Cost(0.0, 0.02, 1e-7, threads=False),
    "rows": Cost(0.0, 0.01, 4e-6, threads=False),
    "tile": Cost(0.5, 0.02, 2e-6, 2e-11),
    "train_index": Cost(0.7, 0.3, 1e-5, 2e-11),
    "shard": Cost(0.0, 0.02, 3e-6, 3e-11),
    "effort": Cost(0.0, 0.2, 0.0, 5e-11),
    "look_up": Cost(0.0, 0.02, 2.5e-5, 3e-11),
    "score_tile": Cost(0.0, 0.02, 2e-6, 6e-10),
    "neighbours": Cost(0.0, 0.01, 4e-7, threads=False),
    "mine": Cost(0.6, 0.3, 1.2e-4, threads=False),
    "align": Cost(0.6, 0.2, 3e-4),
    "keep": Cost(1.0, 0.1, 5e-5),
}
"""By the names of functions in `stages.run.work`, on a core of an AMD EPYC; embedding is `mini`'s.
`benchmarks/scale.py` compares them with what a run takes."""


class Costs(Frozen):
    """Measurements of `calibrate`: kind of work -> how many times as long as `COSTS` say it takes here."""

    format_version: int = VERSION
    factors: dict[str, float]


def known_costs(run: Path, kinds: Iterable[Kind], dim: int) -> tuple[dict[str, Cost], set[str]]:
    """Costs of each kind of work on this machine, as busy as it is now, and the kinds that were done on it.
    What a calibration has kept in the run's folder comes first, then what this run's own units took."""
    path = run / FILE
    factors = read_manifest(path, Costs, VERSION).factors if path.is_file() else {}
    factors |= _factors(RunFolder(run), kinds, dim)
    speed = _speed()
    return {work: cost.times(factors.get(work, speed)) for work, cost in COSTS.items()}, set(factors)


def _speed() -> float:
    """How many times as long as where `COSTS` are from this machine takes for the same."""
    numbers, taken = np.random.default_rng(0).integers(0, 1 << 40, _SORTED), []
    for _ in range(3):
        began = time.perf_counter()
        np.sort(numbers)
        taken.append(time.perf_counter() - began)
    return min(taken) / _SORTING


def _factors(folder: RunFolder, kinds: Iterable[Kind], dim: int, warm: bool = False) -> dict[str, float]:
    """Kind of work -> how many times as long as `COSTS` say the units took that were done; `warm`: in a
    process that had loaded what they need."""
    took, said = Counter[str](), Counter[str]()
    for kind in kinds:
        records = [record for unit in kind.units() if (record := folder.record(unit.name)) is not None]
        if done := [record.processor_seconds for record in records if record.processor_seconds]:
            share = len(done) / kind.count
            took[kind.work] += sum(done)  # pyrefly: ignore[unsupported-operation]
            said[kind.work] += COSTS[kind.work].of(len(done), share * kind.rows, share * kind.cells * dim)  # pyrefly: ignore[unsupported-operation]
    return {work: took[work] / (said[work] + (0 if warm else COSTS[work].start)) for work in took}


def calibrate(recipe: CorpusRecipe, dim: int) -> None:
    """Measure what work costs with vectors of `dim`, and keep it in the run's folder.

    The recipe is run in this process with the first lines of its texts, after a run with a quarter of them
    has loaded what is needed. Texts that are documents are refused.
    """
    if any(text.split is not None for text in recipe.languages.values()):
        raise MexmaError("what documents cost is not measured", "calibrate with texts of one sentence a line")
    factors: dict[str, float] = {}
    for lines in (_LINES // 4, _LINES):
        with tempfile.TemporaryDirectory(prefix="mexma-") as name, quieted():
            few = _shortened(recipe, lines, Path(name))
            run_corpus(few, InThisProcess)
            folder = RunFolder(Path(few.run))
            kinds = plan(few, inputs_of(few), partial(cut_of, folder.record))
            factors = _factors(folder, kinds, dim, warm=True)
    factors.pop("tile", None)  # whose cells take longer than all else as soon as there are more of them
    path = Path(recipe.run) / FILE
    make_parent(path)
    write_json_atomic(path, Costs(factors=factors).model_dump(mode="json"))


def _shortened(recipe: CorpusRecipe, lines: int, folder: Path) -> CorpusRecipe:
    """The recipe with the first lines of its texts, in another folder."""
    for code, files in inputs_of(recipe).items():
        if "/" not in code:
            text = islice(chain.from_iterable(map(read_lines, files)), lines)
            (folder / f"{code}.txt").write_text("".join(f"{line}\n" for line in text))
    languages = {
        code: text.model_copy(update={"input": (f"{folder}/{code}.txt",)})
        for code, text in recipe.languages.items()
    }
    exact = recipe.mine.model_copy(update={"index": EXACT})  # so few lines need no index
    output = recipe.output.model_copy(update={"to": None})
    changed = {"run": f"{folder}/run", "languages": languages, "mine": exact, "output": output}
    return recipe.model_copy(update=changed)
