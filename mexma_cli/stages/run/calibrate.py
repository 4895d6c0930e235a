"""What units of work cost on this machine: measured on a little of the recipe's text, and kept."""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path

import numpy as np

from mexma_cli.errors import MexmaError
from mexma_cli.files import make_parent, read_manifest, write_json_atomic
from mexma_cli.knn.exact import knn
from mexma_cli.settings.corpus import CorpusRecipe
from mexma_cli.stages.knn.search import EXACT
from mexma_cli.stages.run.index_costs import Cost, IndexCosts, measure, spent
from mexma_cli.stages.run.mining_costs import mining_costs
from mexma_cli.stages.run.plan import inputs_of
from mexma_cli.stages.run.run import run_corpus
from mexma_cli.stages.run.scheduler import Ended
from mexma_cli.stages.run.units import read_unit
from mexma_cli.stages.run.work import perform
from mexma_cli.store.layout import Frozen
from mexma_cli.text.lines import read_lines

FILE = "costs.json"
VERSION = 4
ONE_TEXT = ("split", "cut", "embed", "embed_known", "merge", "rows", "neighbours")
"""Work on the lines of one text; all else is on those of the two of a pair."""
_LINES = 2000  # of every language in the run that is measured, and a quarter of that
_ROWS = 24_576  # of each side in the largest search that is measured


class Costs(Frozen):
    """What work costs on a machine, in seconds of processor time.

    Attributes:
        dim: Of the vectors.
        works: The name of a function in `stages.run.work` -> its cost; that of `tile` without its cells.
        cell: For a cell of the similarity matrix, in the exact search.
        index: Of the search with indexes.
    """

    format_version: int = VERSION
    dim: int
    works: dict[str, Cost]
    cell: float
    index: IndexCosts


def known_costs(run: Path) -> Costs | None:
    """What `calibrate` kept in a run's folder; None if it did not.

    Raises:
        MexmaError: The file is damaged.
    """
    path = run / FILE
    return read_manifest(path, Costs, VERSION) if path.is_file() else None


def calibrate(recipe: CorpusRecipe, dim: int) -> Costs:
    """Measure what work costs, and keep it in the run's folder.

    The recipe is run in this process with the first lines of its texts, and again with a quarter of them:
    what differs is the lines', the rest is the units'. Then made-up vectors are searched, exactly and in an
    index, and made-up neighbours mined: of few rows, sorting and looking up take less for each.

    Args:
        dim: Of the vectors.

    Raises:
        MexmaError: The texts are documents, or as the run would.
    """
    if any(text.split is not None for text in recipe.languages.values()):
        raise MexmaError("what documents cost is not measured", "calibrate with texts of one sentence a line")
    _run(recipe, _LINES // 4)  # compiles, and loads the encoder
    few, many = _run(recipe, _LINES // 4), _run(recipe, _LINES)
    works = {}
    for work, (seconds, units, lines) in many.items():
        less = few[work][0] / units
        row = max(0.0, seconds / units - less) / (lines - few[work][2])
        works[work] = Cost(unit=max(0.0, less - row * few[work][2]), row=row)
    exact, cell = _exact(dim)
    if "tile" in works:
        works["tile"] = exact
        texts = inputs_of(recipe)
        some = [list(_first(texts[code], _LINES)) for code in recipe.language_pairs()[0]]
        works |= mining_costs(recipe, some)
    costs = Costs(dim=dim, works=works, cell=cell, index=measure(dim))
    path = Path(recipe.run) / FILE
    make_parent(path)
    write_json_atomic(path, costs.model_dump(mode="json"))
    return costs


class InThisProcess:
    """Does units in this process, and adds up the processor time that each kind of work takes."""

    slots = 1

    def __init__(self, run: Path) -> None:
        self._run, self._todo = run, list[Path]()
        self.seconds, self.units = Counter[str](), Counter[str]()

    def submit(self, todo: Path) -> None:
        self._todo.append(todo)

    def ended(self, seconds: float) -> Sequence[Ended]:
        todo = self._todo.pop()
        work, began = read_unit(todo).work, time.process_time()
        perform(self._run, todo)
        self.seconds[work] += time.process_time() - began  # type: ignore[assignment]
        self.units[work] += 1
        return [Ended(todo)]

    def stop(self) -> None:
        self._todo.clear()


def _run(recipe: CorpusRecipe, lines: int) -> dict[str, tuple[float, int, int]]:
    """Work -> the seconds, units and lines (of a unit) of a run of so many lines a language."""
    made: list[InThisProcess] = []

    def here(folder: Path) -> InThisProcess:
        made.append(InThisProcess(folder))
        return made[0]

    with tempfile.TemporaryDirectory(prefix="mexma-") as name:
        fewest = lines
        for code, files in inputs_of(recipe).items():
            if "/" not in code:
                text = list(_first(files, lines))
                fewest = min(fewest, len(text))
                (Path(name) / f"{code}.txt").write_text("".join(f"{line}\n" for line in text))
        languages = {
            code: text.model_copy(update={"input": (f"{name}/{code}.txt",)})
            for code, text in recipe.languages.items()
        }
        exact = recipe.mine.model_copy(update={"index": EXACT})  # an index is measured by itself
        where = {"run": f"{name}/run", "languages": languages, "mine": exact}
        output = {"output": recipe.output.model_copy(update={"to": None})}
        run_corpus(recipe.model_copy(update=where | output), here)
    (done,) = made
    return {
        work: (seconds, done.units[work], fewest * (1 if work in ONE_TEXT else 2))
        for work, seconds in done.seconds.items()
    }


def _first(files: Iterable[str], lines: int) -> Iterator[str]:
    """So many lines of a text, or all."""
    return islice(chain.from_iterable(map(read_lines, files)), lines)


def _exact(dim: int) -> tuple[Cost, float]:
    """What a tile costs, and a cell of it, by searches of three sizes, each twice the one before."""
    x, y = np.random.default_rng(0).standard_normal((2, _ROWS, dim), dtype=np.float32)
    least = _ROWS // 4

    def search(rows: int) -> float:
        # With a limit, however large, as tiles of many rows are searched: not by NumPy.
        return spent(lambda: knn(x[:rows], y[:rows], 4, memory=1 << 40), 3)

    one, two, four = search(least), search(2 * least), search(4 * least)
    cell = max(0.0, (four - two) - 2 * (two - one)) / (6 * least**2)
    row = max(0.0, (four - one) / (3 * least) - 5 * least * cell)
    return Cost(unit=max(0.0, one - row * least - cell * least**2), row=row / 2), cell
