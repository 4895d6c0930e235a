"""How strongly each term of a loss pulls at the encoder, at the first step and later.

    python benchmarks/gradients.py --data DIR [--only NAME ...] [--steps 0 50] [--set KEY=VALUE] [--out DIR]

(DIR: as for benchmarks/reproduction.py, whose recipes, shared start and folder these are.) Prints, for the
last phase of each recipe with seed 1, every term's loss, and the norm of its weighted gradient in the
encoder's layers and in its word embeddings. A term whose gradient is a thousandth of another's is as good as
left out; but a new head passes on more as it learns, so look at later steps, too. A first loss far above that
of guessing (the logarithm of the number of tokens) says that a new head's first logits are too large.
"""

from __future__ import annotations

import argparse
import math
import shutil
from pathlib import Path

import torch
from reproduction import BASE, Runs

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.stages.train.train import open_stores, trainer_of
from mexma_cli.training.distributed import Processes
from mexma_cli.training.log import Logs
from mexma_cli.training.trainer import Trainer

NAMES = ("systems/small/tr", "systems/small/tr-tlm", "systems/small/dap", BASE)
Row = tuple[str, int, float, float, float]
"""Term, step, loss, and the gradient's norm in the layers and in the word embeddings."""


def trainer_in(runs: Runs, name: str) -> Trainer:
    """The last phase of a recipe, before its first step."""
    run, recipe = runs.begun(name, 1)
    before = recipe.phases[-2].name
    encoder = SentenceEncoder.load(str(run / before / "encoder"), "cpu", max_tokens=recipe.data.max_tokens)
    return trainer_of(recipe, recipe.phases[-1], encoder, open_stores(recipe), None, Processes())


def pulls(trainer: Trainer) -> list[Row]:
    """Every term's loss and gradients on the batch of the next step."""
    objective = trainer.objective
    words = objective.encoder.model.get_input_embeddings().weight
    layers = [p for p in objective.encoder.model.parameters() if p is not words and p.requires_grad]
    views = trainer.batches.at(trainer.step * trainer.pairs_per_step).to(trainer.device)
    objective.train()
    rows = []
    for name, weight in objective.weights.items():
        torch.manual_seed(0)
        loss = objective(views)[name]
        found = torch.autograd.grad(weight * loss, [words, *layers], allow_unused=True)
        norms = [0.0 if one is None else float(one.norm()) for one in found]
        rows.append((name, trainer.step, float(loss.detach()), math.hypot(*norms[1:]), norms[0]))
    return rows


def train_to(trainer: Trainer, step: int) -> None:
    """Train until so many steps are done."""
    if trainer.step < step:
        trainer.run(Logs([]), stopped=lambda: trainer.step >= step)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("runs/reproduction"))
    parser.add_argument("--only", nargs="+", default=NAMES, metavar="NAME")
    parser.add_argument("--steps", nargs="+", type=int, default=[0, 50])
    parser.add_argument("--set", dest="overrides", action="append", default=[], metavar="KEY=VALUE")
    typed = parser.parse_args()
    runs = Runs(typed.data, typed.out, typed.overrides)
    print("| recipe | term | weight | step | loss | gradient in layers | in word embeddings |")
    print("|---|---|---|---|---|---|---|")
    for name in typed.only:
        trainer = trainer_in(runs, name)
        rows = []
        for step in sorted(typed.steps):
            train_to(trainer, step)
            rows += pulls(trainer)
        shutil.rmtree(
            trainer.checkpoints, ignore_errors=True
        )  # else benchmarks/reproduction.py goes on there
        for term, step, loss, *norms in sorted(rows, key=lambda row: row[0]):
            weight = trainer.objective.weights[term]
            cells = [name, term, f"{weight:g}", str(step), f"{loss:.3f}", *(f"{norm:.2e}" for norm in norms)]
            print("| " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
