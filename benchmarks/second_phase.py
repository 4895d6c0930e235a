"""What a second phase adds to a bag of words, by objective and steps: the table of notes/second-phase.md.

    python benchmarks/second_phase.py --data DIR [--seeds 3] [--only NAME ...] [--set KEY=VALUE] [--out DIR]

(DIR: what recipes/transformer.yaml reads, ntrex128/ and mining/.) A NAME is one of `PHASES` and a
number of steps. All go on from one bag, the recipe's own with seed 1. What is finished is kept in --out, as
in benchmarks/reproduction.py. Printed are means, and in parentheses the lowest and the highest seed.
"""

from __future__ import annotations

from pathlib import Path
from statistics import fmean

from encoder import mined
from reproduction import START, Result, Runs, arguments

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.evaluation.augment import KINDS, augment
from mexma_cli.evaluation.embedder import Embedder
from mexma_cli.evaluation.readers.aligned import read_texts
from mexma_cli.evaluation.readers.augmented import Augmented
from mexma_cli.evaluation.xsim import evaluate as evaluate_xsim
from mexma_cli.evaluation.xsimpp import evaluate as evaluate_xsimpp

RECIPE = "transformer"
HARD = "hard_negatives: 0.3"
RANKED = "temperature: 0.07, margin: 0.2"
HEAD = "head: {layers: 1, heads: 5, ffn: 640, layer_norm_eps: 1.0e-5, dropout: 0.0, output_scale: 0.03}"
PHASES = {
    "contrastive": f"name: contrastive, {RANKED}",
    "mexma": f"name: mexma, {HEAD}",
    "mexma-contrastive": f"name: mexma, contrastive: 1, {RANKED}, {HEAD}",
    "negatives": f"name: contrastive, {RANKED}, {HARD}",
    "mexma-negatives": f"name: mexma, contrastive: 1, {RANKED}, {HARD}, {HEAD}",
}
"""The objectives."""
STEPS = (60, 200)
BAG_NEGATIVES = "bag-negatives"
"""No second phase, and hard negatives in the first one."""
NAMES = (START, *(f"{objective}/{steps}" for steps in STEPS for objective in PHASES), BAG_NEGATIVES)
LANGUAGES = "fra,deu,spa,rus"
MEASURES = ("xsim++", *KINDS, "xsim", "F1")


class Phases(Runs):
    """Runs that go on from one bag."""

    def start(self, seed: int, name: str = START) -> Path:
        """The bag of all seeds."""
        return super().start(1 if name == START else seed, name)

    def trained(self, name: str, seed: int) -> Path:
        """The run of a phase that goes on from it, or of `BAG_NEGATIVES`."""
        return self.start(seed, name) if name == BAG_NEGATIVES else super().trained(name, seed)

    def changed(self, name: str) -> tuple[str, list[str]]:
        """The recipe with the objective and the steps of a name."""
        if name == RECIPE:
            return RECIPE, []
        if name == BAG_NEGATIVES:
            return RECIPE, [f"phases.bag.objective.{HARD.replace(': ', '=')}"]
        objective, steps = name.split("/")
        phase, settings = "phases.context", PHASES[objective]
        changes = [f"{phase}.objective={{{settings}}}", f"{phase}.trainer.steps={steps}"]
        return RECIPE, changes + ["data.negatives=0"] * (HARD not in settings)

    def measured(self, name: str, seed: int) -> Result:
        """Train, and measure."""
        run = self.start(seed) if name == START else self.trained(name, seed)
        encoder = SentenceEncoder.load(str(run), "cpu")
        embed = Embedder(encoder)
        data = read_texts(self.data / "ntrex128", "devtest", LANGUAGES, "eng_Latn")
        made = augment(data.lines)
        kinds = {one.sentence: (one.source, one.kind) for one in made}
        hard = Augmented(self.data, list(kinds), kinds, own=True)
        f1 = {pair: 100 * best.f1 for pair, (best,) in mined(encoder, self.data, None).items()}
        return {
            **evaluate_xsimpp(data, hard, embed, "ratio", 4).scores,
            **evaluate_xsim(data, embed, "ratio", 4).scores,
            "F1": fmean(f1.values()),
            "F1 by pair": f1,
        }


def main() -> None:
    """Train and measure what is missing, and print the table."""
    typed = arguments(__doc__, NAMES, Path("runs/second-phase"))
    runs = Phases(typed.data, typed.out, typed.overrides, RECIPE)
    for seed in range(1, typed.seeds + 1) if not typed.tables else ():
        for name in typed.only:
            if name != START or seed == 1:
                runs.result(name, seed)
    print("| objective/steps | seeds | " + " | ".join(MEASURES) + " |\n|" + " --- |" * (2 + len(MEASURES)))
    for name in NAMES:
        if found := runs.finished(name):
            cells = [spread([one[key] for one in found]) for key in MEASURES]
            print(f"| {name} | {len(found)} | " + " | ".join(cells) + " |")


def spread(values: list[float]) -> str:
    """The mean, the lowest and the highest."""
    mean = f"{fmean(values):.2f}"
    return mean if len(values) == 1 else f"{mean} ({min(values):.2f} to {max(values):.2f})"


if __name__ == "__main__":
    main()
