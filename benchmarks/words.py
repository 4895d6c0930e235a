"""What the keys of `words` that only its encoder sees are worth: token embeddings exported with others.

    python benchmarks/words.py RUN --data DIR [--set KEY=VALUE ...]

(DIR: mining/, ntrex128/ and tatoeba/ below it.) RUN is a run of `mexma train mini` or of a recipe like it;
nothing is trained. Prints one line for each combination of keys, separated by commas:

    python benchmarks/words.py runs/mini --data DIR --set own_share=1,length_power=1 --set whitening=0
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from statistics import fmean

import yaml
from encoder import mining_f1, ntrex_errors, tatoeba_hits

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.objectives.words import Words
from mexma_cli.recipe import Recipe, WordsObjective, load
from mexma_cli.training import checkpoint


def exported(run: Path, recipe: Recipe, changes: dict[str, float]) -> SentenceEncoder:
    """The encoder of the run's phase `words`, with other keys of its objective."""
    (phase,) = (phase for phase in recipe.phases if phase.objective.name == "words")
    encoder = SentenceEncoder.load(str(run / phase.name / "encoder"), "cpu")
    settings = WordsObjective.model_validate(phase.objective.model_dump() | changes)
    words = Words(encoder, settings)
    last = checkpoint.found(run / phase.name / "checkpoints")[-1]
    words.load_state_dict(checkpoint.load(last).objective, strict=False)  # `moment` is whitening's alone
    with tempfile.TemporaryDirectory() as folder:  # as it would be loaded, with nothing kept from before
        words.export().save(folder)
        return SentenceEncoder.load(folder, "cpu")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--set", dest="changes", action="append", default=[], metavar="KEY=VALUE,...")
    arguments = parser.parse_args()
    recipe = load(arguments.run / "recipe.yaml")
    assert recipe.dev is not None
    print("| | NTREX-128 error | Tatoeba P@1 | F1 deu-eng, fra-eng |\n| --- | --- | --- | --- |")
    for typed in ["", *arguments.changes]:
        changes = {key: yaml.safe_load(value) for key, value in (c.split("=") for c in typed.split(",") if c)}
        encoder = exported(arguments.run, recipe, changes)
        errors, _ = ntrex_errors(encoder, arguments.data, recipe.dev.languages)
        hits = tatoeba_hits(encoder, arguments.data, recipe.dev.languages)
        mined = [mining_f1(encoder, folder).f1 for folder in sorted((arguments.data / "mining").iterdir())]
        found = ", ".join(f"{100 * f1:.1f}" for f1 in mined)
        name = typed or "as in the recipe"
        print(f"| {name} | {fmean(errors.values()):.2f} | {fmean(hits.values()):.2f} | {found} |", flush=True)


if __name__ == "__main__":
    main()
