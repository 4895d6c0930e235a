"""A corpus of three languages, and where its units run in tests."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path

from mexma_cli.executors.worker import attempt
from mexma_cli.settings.corpus import CorpusRecipe
from mexma_cli.stages.run.executor import Ended
from tests.conftest import SENTENCES

LINES = 24


def corpus(folder: Path, encoder: Path, **keys: object) -> CorpusRecipe:
    """A recipe for three languages of 24 lines each, in units of a few lines."""
    for code, lines in (("fra", SENTENCES["fra"]), ("eng", SENTENCES["eng"]), ("deu", SENTENCES["eng"])):
        numbered = [f"{lines[n % 8]} {n}{code if code == 'deu' else ''}\n" for n in range(LINES)]
        (folder / f"{code}.txt").write_text("".join(numbered), encoding="utf-8")
    raw = {
        "kind": "corpus",
        "name": "test",
        "run": str(folder / "run"),
        "root": str(folder),
        "encoder": {"model": str(encoder), "device": "cpu", "dtype": "fp32"},
        "languages": {code: {"input": f"{code}.txt"} for code in ("fra", "deu", "eng")},
        "units": {"lines": 7, "tile": 10},
    }
    return CorpusRecipe.model_validate(raw | keys)


class InThisProcess:
    """An executor that does units here, the waiting ones in any order, and may fail to.

    Args:
        run: The run's folder.
        seed: Of the order.
        before: Called with a unit's description before it is done; what it raises, a worker dies of.
    """

    def __init__(self, run: Path, seed: int = 0, before: Callable[[Path], None] = lambda todo: None) -> None:
        self.run, self.before, self.did = run, before, [""]
        self.did.clear()
        self._random, self._todo = random.Random(seed), list[Path]()

    slots = 5

    def submit(self, todo: Path) -> None:
        self._todo.append(todo)

    def ended(self, seconds: float) -> Sequence[Ended]:
        todo = self._todo.pop(self._random.randrange(len(self._todo)))
        try:
            self.before(todo)
        except ConnectionError as error:
            return [Ended(todo, f"its worker died ({error})", died=True)]
        self.did.append(todo.relative_to(self.run / "units").as_posix().removesuffix(".todo.json"))
        said = attempt(self.run, todo)
        return [Ended(todo, said["error"], said["died"])]  # type: ignore[arg-type]

    def stop(self) -> None:
        self._todo.clear()
