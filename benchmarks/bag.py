"""What the keys of `bag` that only its encoder sees are worth: token embeddings exported with others.

    python benchmarks/bag.py RUN --data DIR [--set KEY=VALUE ...]

(DIR: mining/, ntrex128/ and tatoeba/ below it.) RUN is a run of `mexma train mini` or of a recipe like it;
nothing is trained. Prints one line for each combination of keys, separated by commas:

    python benchmarks/bag.py runs/mini --data DIR --set own_share=1,length_power=1 --set whitening=0
"""

from __future__ import annotations

import argparse
from pathlib import Path

from encoder import scores

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.objectives.bag.loss import Bag
from mexma_cli.objectives.bag.settings import BagSettings
from mexma_cli.settings.load import load
from mexma_cli.settings.training import Recipe
from mexma_cli.training import checkpoint


def exported(run: Path, recipe: Recipe) -> SentenceEncoder:
    """The encoder of the run's phase `bag`, as this recipe would export it."""
    phase = recipe.phases[0]
    assert isinstance(phase.objective, BagSettings)
    encoder = SentenceEncoder.load(str(run / phase.name / "encoder"), "cpu")
    words = Bag(encoder, phase.objective)
    last = checkpoint.found(run / phase.name / "checkpoints")[-1]
    state = checkpoint.load(last).objective
    words.load_state_dict(state, strict=False)  # `moment` may be more than these need
    return words.export()


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--set", dest="changes", action="append", default=[], metavar="KEY=VALUE,...")
    arguments = parser.parse_args()
    print("| | NTREX-128 error | Tatoeba P@1 | F1 deu-eng, fra-eng |\n| --- | --- | --- | --- |")
    for typed in ["", *arguments.changes]:
        changes = [f"phases.bag.objective.{change}" for change in typed.split(",") if change]
        recipe = load(arguments.run / "recipe.yaml", changes)
        languages = list(dict.fromkeys(code for corpus in recipe.data.corpora for code in corpus.languages))
        found = scores(exported(arguments.run, recipe), arguments.data, languages)
        mined = ", ".join(f"{f1:.1f}" for f1 in found["by language"]["mining"].values())
        name = typed or "as in the recipe"
        print(f"| {name} | {found['xsim']:.2f} | {found['tatoeba']:.2f} | {mined} |", flush=True)


if __name__ == "__main__":
    main()
