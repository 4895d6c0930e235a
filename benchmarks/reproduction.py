"""MEXMA's ablations, other systems and decomposers in the small: the tables of docs/reproduction.md.

    python benchmarks/reproduction.py --data DIR [--seeds 3] [--only NAME ...] [--set KEY=VALUE] [--out DIR]

(DIR: tatoeba_mt/, tico19/, ntrex128/, tatoeba/ and mining/ below it.) The encoders' recipes start from
one phase `bag` a seed, and differ in the phase after it. All recipes have their turn before the next
seed begins. What is finished is kept in --out and not done again, so a killed run goes on; the tables
that are printed at the end (with --tables at once) hold whatever is there. --set changes a key of all
encoders' recipes, so that a GPU can do more, in an --out of its own: `--set trainer.device=cuda --set
phases.train.trainer.steps=20000`.

The decomposers (systems/small/meat and the like) are trained on vectors that `mini` makes of Tatoeba's pairs.
"""

from __future__ import annotations

import argparse
import json
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
from encoder import LANGUAGES, scores
from scipy import stats

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.evaluation.embedder import Embedder
from mexma_cli.evaluation.leakage import leakage_scores, measure_leakage
from mexma_cli.evaluation.tatoeba import read_tatoeba
from mexma_cli.files import write_json_atomic
from mexma_cli.settings.load import load, load_any
from mexma_cli.settings.training import DecomposeRecipe, Recipe
from mexma_cli.stages.embed.embed import EmbedOptions, embed_file
from mexma_cli.stages.prepare.prepare import prepare
from mexma_cli.stages.train import run_folder
from mexma_cli.stages.train.decompose import PARTS, TrainedDecomposer, decompose
from mexma_cli.stages.train.train import train
from mexma_cli.text.lines import read_lines

START = "bag"
"""The phase that all recipes share, on its own."""
BASE = "ablations/small/mexma"
MASKING = (20, 30, 50, 60, 70, 80, 90)
TABLES = {
    "MEXMA without its parts (Tables 5 and 11)": (
        BASE,
        "ablations/small/no-koleo",
        "ablations/small/sentence-gradients",
        "ablations/small/masked-alignment",
        "ablations/small/symmetric",
        "ablations/small/non-symmetric",
    ),
    "Contrastive (Table 6)": (
        "ablations/small/contrastive",
        "ablations/small/contrastive-mexma-sentence-gradients",
        "ablations/small/contrastive-mexma",
    ),
    "Masking (Table 12)": (BASE, *(f"ablations/small/masking-{percent}" for percent in MASKING)),
    "Systems (DAP, Tables 1 and 3)": ("systems/small/tr", "systems/small/tr-tlm", "systems/small/dap"),
}
"""The first of each is what the others are compared with."""
DECOMPOSERS = tuple(f"systems/small/{name}" for name in ("dream", "dream-oracle", "meat", "meat-oracle"))
MEASURES = {"xsim": "NTREX xsim error %", "tatoeba": "Tatoeba P@1 %", "mining": "mining F1 %"}
PART_MEASURES = [f"{part} {way}" for part in PARTS for way in ("xx->eng", "eng->xx")]
Result = dict[str, Any]


class Runs:
    """What was and is to be trained, below one folder.

    Args:
        base: The recipe whose first phase the others start from.
        languages: What is measured.
    """

    def __init__(
        self,
        data: Path,
        out: Path,
        overrides: list[str],
        base: str = BASE,
        languages: Sequence[str] = tuple(LANGUAGES.split(",")),
    ) -> None:
        self.data, self.out, self.overrides = data, out, overrides
        self.base, self.languages = base, languages

    def path(self, name: str, seed: int) -> Path:
        """Where a result is kept."""
        return self.out / "results" / f"{name.replace('/', '-')}-{seed}.json"

    def result(self, name: str, seed: int) -> Result:
        """The figures of a recipe with a seed, from an earlier call if there was one."""
        path = self.path(name, seed)
        if path.is_file():
            kept: Result = json.loads(path.read_text())
            return kept
        print(f"{name}, seed {seed} ...", flush=True)
        began = time.perf_counter()
        figures = self.measured(name, seed)
        figures |= {"name": name, "seed": seed, "seconds": round(time.perf_counter() - began)}
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json_atomic(path, figures)
        return figures

    def finished(self, name: str) -> list[Result]:
        """All results of a recipe, by seed."""
        found = [json.loads(p.read_text()) for p in self.path(name, 0).parent.glob("*.json")]
        return sorted((one for one in found if one["name"] == name), key=lambda one: int(one["seed"]))

    def measured(self, name: str, seed: int) -> Result:
        """Train a recipe and measure what came out."""
        if name in DECOMPOSERS:
            return self._decomposed(name, seed)
        run = self.start(seed) if name == START else self.trained(name, seed)
        recipe = load(run / "recipe.yaml")
        records = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
        last = {record["phase"]: record for record in records}
        return {
            **scores(
                SentenceEncoder.load(str(run), recipe.phases[0].trainer.device), self.data, self.languages
            ),
            "steps": records[-1]["step"],
            "pairs": records[-1]["pairs"],
            "terms": records[-1]["terms"],
            "training": sum(record["seconds"] for record in last.values()),
        }

    def changed(self, name: str) -> tuple[str, list[str]]:
        """The recipe that a name stands for, and what is set in it."""
        return name, []

    def recipe(self, name: str, seed: int, run: Path) -> Recipe:
        """A recipe with a seed, on this data."""
        name, own = self.changed(name)
        own += [
            f"data.root={self.data}",
            f"data.store={self.out / 'data'}",
            f"run={run}",
            f"trainer.seed={seed}",
        ]
        return load(name, [*self.overrides, *own])

    def start(self, seed: int, name: str = START) -> Path:
        """The run of a recipe's first phase alone; that of the shared one, if no recipe is named."""
        run = self.out / f"seed-{seed}" / name.replace("/", "-")
        recipe = self.recipe(self.base if name == START else name, seed, run)
        prepare(recipe)
        recipe = recipe.model_copy(update={"phases": recipe.phases[:1]})
        if not (run / "encoder").exists():
            train(recipe, resume=True)
        return run

    def trained(self, name: str, seed: int) -> Path:
        """The run of a recipe that goes on from the shared phase."""
        run, recipe = self.begun(name, seed)
        train(recipe, resume=True)
        shutil.rmtree(run / recipe.phases[-1].name / "checkpoints", ignore_errors=True)
        return run

    def begun(self, name: str, seed: int) -> tuple[Path, Recipe]:
        """The folder of a run in which the shared phase is finished, and its recipe."""
        start = self.start(seed)
        run = self.out / f"seed-{seed}" / name.replace("/", "-")
        recipe = self.recipe(name, seed, run)
        run.mkdir(parents=True, exist_ok=True)
        if not (run / START).exists():  # `train` goes on after a phase that is finished
            run_folder.claim(run, recipe, resume=False, processes=1, text=run_folder.text_of(start))
            shutil.copy(start / "log.jsonl", run)
            (run / START).symlink_to((start / START).resolve())
        return run, recipe

    def _decomposed(self, name: str, seed: int) -> Result:
        run = self.out / f"seed-{seed}" / name.replace("/", "-")
        recipe = load_any(name, [f"data.root={self.out / 'vectors'}", f"run={run}", f"trainer.seed={seed}"])
        assert isinstance(recipe, DecomposeRecipe) and recipe.encoder is not None
        encoder = SentenceEncoder.load(recipe.encoder, "cpu")
        self._embed(recipe, encoder)
        decompose(recipe, resume=True)
        decomposer = TrainedDecomposer.open(run)

        def split(vectors: np.ndarray) -> dict[str, np.ndarray]:
            return {part: decomposer.part(vectors, part) for part in PARTS}

        languages = ",".join(code[:3] for code in recipe.data.pairs[0].languages)
        sets = read_tatoeba(self.data / "tatoeba", languages)
        last = json.loads((run / "log.jsonl").read_text().splitlines()[-1])
        return leakage_scores(measure_leakage(sets, [], Embedder(encoder), split)) | {"epochs": last["step"]}

    def _embed(self, recipe: DecomposeRecipe, encoder: SentenceEncoder) -> None:
        """The stores that a decomposer's recipe names, of Tatoeba's pairs."""
        for language in recipe.data.pairs[0].languages:
            folder = self.out / "vectors" / language
            folder.mkdir(parents=True, exist_ok=True)
            rows = [line.split("\t") for line in read_lines(self.data / f"tatoeba_mt/{language}-eng.tsv.gz")]
            for column, side in enumerate((language, "eng")):
                text = folder / f"{side}.txt"
                text.write_text("".join(f"{row[column]}\n" for row in rows), encoding="utf-8")
                options = EmbedOptions("eng_Latn" if side == "eng" else side)
                embed_file(encoder, text, folder / f"{side}.emb", options)


def interval(values: list[float]) -> str:
    """Mean and half the width of the 95% t interval over seeds."""
    if len(values) < 2:
        return f"{fmean(values):.2f}" if values else ""
    half = stats.t.ppf(0.975, len(values) - 1) * stdev(values) / len(values) ** 0.5
    return f"{fmean(values):.2f} ± {half:.2f}"


def table(runs: Runs, title: str, names: tuple[str, ...], measures: dict[str, str]) -> str:
    """Markdown: each recipe's figures, and their difference to the first one's with the same seeds."""
    head = ["recipe", "seeds", *measures.values(), *(f"Δ {title}" for title in measures.values())]
    lines = [f"### {title}", "", "| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    first = {one["seed"]: one for one in runs.finished(names[0])}
    for name in names:
        found = runs.finished(name)
        cells = [interval([one[key] for one in found]) for key in measures]
        shared = [(one, first[one["seed"]]) for one in found if one["seed"] in first and name != names[0]]
        cells += [interval([one[key] - other[key] for one, other in shared]) for key in measures]
        lines.append(f"| `{name}` | {len(found)} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def print_tables(runs: Runs) -> None:
    """All tables, of what is finished."""
    for title, names in TABLES.items():
        print("\n" + table(runs, title, (*names, START), MEASURES))
    print("\n" + table(runs, "Decomposers", DECOMPOSERS, {key: key for key in PART_MEASURES}))


def arguments(about: str | None, names: Sequence[str], out: Path) -> argparse.Namespace:
    """What was typed: the data, where results go, which of the recipes, how many seeds."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=out)
    parser.add_argument("--seeds", type=int, default=3, help="1 to this number")
    parser.add_argument("--only", nargs="+", default=names, choices=names, metavar="NAME")
    parser.add_argument("--set", dest="overrides", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--tables", action="store_true", help="train nothing")
    return parser.parse_args()


def main() -> None:
    """Train and measure what is missing, and print the tables."""
    names = [START, *dict.fromkeys(name for group in TABLES.values() for name in group), *DECOMPOSERS]
    typed = arguments(__doc__, names, Path("runs/reproduction"))
    runs = Runs(typed.data, typed.out, typed.overrides)
    for seed in range(1, typed.seeds + 1) if not typed.tables else ():
        for name in typed.only:
            runs.result(name, seed)
    print_tables(runs)


if __name__ == "__main__":
    main()
