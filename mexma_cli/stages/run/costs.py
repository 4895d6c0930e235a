"""Costs of units of work on this machine: those of `stages.costs`, scaled by what was done here."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterable
from functools import partial
from itertools import chain, islice
from pathlib import Path

from mexma_cli.errors import MexmaError, quieted
from mexma_cli.files import make_parent, read_manifest, write_json_atomic
from mexma_cli.settings.corpus import CorpusRecipe
from mexma_cli.stages.costs import COSTS, Cost, slowness
from mexma_cli.stages.knn.search import EXACT
from mexma_cli.stages.run.executor import InThisProcess
from mexma_cli.stages.run.plan import cut_of, inputs_of, plan
from mexma_cli.stages.run.run import run_corpus
from mexma_cli.stages.run.units import Kind, RunFolder
from mexma_cli.store.folder import Frozen
from mexma_cli.text.lines import read_lines

FILE = "costs.json"
VERSION = 5
_LINES = 2000  # of every language in the run that is measured, and a quarter of that


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
    return {work: cost.times(factors.get(work, slowness())) for work, cost in COSTS.items()}, set(factors)


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
        raise MexmaError(
            "--calibrate measures texts of one sentence a line, and `split` takes documents",
            "calibrate a recipe of the same `run` with sentences that `mexma split` makes of some documents",
        )
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
