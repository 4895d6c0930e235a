"""What TR, TR+TLM and DAP take: operations and time a pair, beside the DAP paper's Table 6.

    python benchmarks/objectives.py [--shape small] [--pairs 16] [--steps 4] [--rounds 3] [--device cpu]

Operations are those of the forward pass of systems/tr-mbert, tr-tlm-mbert and dap-mbert, in billions for a
pair of 32 tokens a side, as `mexma train --dry-run` counts them; the paper's TLM has logits of all tokens,
ours of the chosen ones. Time is that of a training step (forward, backward, AdamW) by a pair, in
milliseconds: the median of the steps after the first, by turns, with the same losses on an untrained encoder
of --shape with mBERT's 119,547 tokens, on made-up pairs. The paper has 64 pairs on each of 8 V100: `--shape
base --pairs 64 --device cuda`. In small shapes and batches most of it is AdamW on the word embeddings, of
which DAP has two. With OMP_NUM_THREADS=1 and BUSY=1 the processor's time counts, for a machine that does
other work, too.
"""

from __future__ import annotations

import argparse
import tempfile
from itertools import chain
from pathlib import Path

import numpy as np
from embed import SHAPES, clock
from train import RealPairs

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.encoder.model.hugging_face import new_model
from mexma_cli.objectives.base import Start
from mexma_cli.reporting.tables import aligned_columns, published_rows
from mexma_cli.settings.load import load
from mexma_cli.settings.training import TrainerSettings
from mexma_cli.stages.train.estimate import shape_of
from mexma_cli.training.distributed import Processes
from mexma_cli.training.log import Logs
from mexma_cli.training.trainer import Trainer

RECIPES = {"TR": "systems/tr-mbert", "TR+TLM": "systems/tr-tlm-mbert", "DAP": "systems/dap-mbert"}
LENGTH, VOCABULARY = 32, 119_547


def forward(name: str) -> float:
    """Operations of a pair's forward pass, in billions."""
    recipe = load(RECIPES[name])
    work = recipe.phases[0].objective.work(shape_of(recipe))
    assert work is not None
    return work.forward(LENGTH) / 1e9


def seconds(name: str, typed: argparse.Namespace) -> list[float]:
    """Of each training step after the first."""
    tokenizer = SentenceEncoder.load("mini", "cpu").tokenizer
    encoder = SentenceEncoder("new", new_model(SHAPES[typed.shape], VOCABULARY, 512, 0), tokenizer)
    settings = load(RECIPES[name]).phases[0].objective
    objective = settings.losses().build(Start(encoder, untrained=True), settings)
    rng = np.random.default_rng(0)
    pairs = [tuple(rng.integers(5, len(tokenizer), LENGTH - 2) for _ in range(2)) for _ in range(typed.pairs)]
    keys = {"steps": typed.steps, "batch_pairs": typed.pairs, "device": typed.device}
    keys |= {"checkpoint_every": typed.steps + 1, "log_every": typed.steps + 1}
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(
            objective, RealPairs(pairs), TrainerSettings(**keys), Path(folder), None, Processes()
        )
        trainer.save = lambda *_, **__: Path(folder)
        moments: list[float] = []
        trainer.run(Logs([]), lambda _: moments.append(clock()))
    return np.diff(moments).tolist()


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shape", choices=SHAPES, default="small")
    parser.add_argument("--pairs", type=int, default=16)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--device", default="cpu")
    typed = parser.parse_args()
    taken: dict[str, list[float]] = {name: [] for name in RECIPES}
    for name in chain.from_iterable([RECIPES] * typed.rounds):
        taken[name] += seconds(name, typed)
    rows = [["objective", "forward, G", "x TR", "ms a pair", "x TR", "  source"]]
    ours = {name: (forward(name), 1e3 * float(np.median(taken[name])) / typed.pairs) for name in RECIPES}
    known = published_rows("objectives")
    theirs = {row.encoder: (row.scores["forward"], row.scores["milliseconds"]) for row in known}
    for figures, source in ((ours, f"here, {typed.shape}, {typed.device}"), (theirs, known[0].source)):
        first = next(iter(figures.values()))
        for name, pair in figures.items():
            cells = (f"{own:.2f}\t{own / base:.2f}" for own, base in zip(pair, first, strict=True))
            rows.append([name, *"\t".join(cells).split("\t"), f"  {source}"])
    print("\n".join(aligned_columns(rows, 1)))


if __name__ == "__main__":
    main()
