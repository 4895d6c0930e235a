"""What decomposers find on the pairs that they held out: the ORACLE paper's Table 8, with seen and unseen
languages, and whether two runs differ by more than chance.

    python benchmarks/leakage.py RUN [RUN ...] [--unseen LIST]

RUN is a finished run of `kind: decompose`, of any encoder, whose stores are where its recipe says. Figures
are precision at 1 by cosine among the held-out pairs of a language, the mean of both directions and then of
languages, in percent; --unseen names the languages that the encoder was not trained on (LaBSE's in the paper:
ayr_Latn,grn_Latn). p is that of the exact, two-sided test of McNemar against the first run, over all held-out
sentences and both directions; runs of the same stores and seed hold out the same pairs. The paper names
neither its test nor its direction.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import fmean

import numpy as np
from scipy.stats import binomtest

from mexma_cli.errors import MexmaError
from mexma_cli.evaluation.leakage import WHOLE
from mexma_cli.knn.exact import knn
from mexma_cli.settings.load import load_any
from mexma_cli.settings.training import DecomposeRecipe
from mexma_cli.stages.train.decompose import PARTS, TrainedDecomposer, open_store_pairs
from mexma_cli.training.decomposing import StoredPairs

Sides = tuple[np.ndarray, np.ndarray]
Hits = dict[str, np.ndarray]
"""By language: bool [2, N], whether the nearest is the translation, from source to target and back."""


def held_out(run: Path) -> dict[str, Sides]:
    """The vectors of a run's held-out pairs, float32 [N, dim] a side, by the target's language."""
    recipe = load_any(str(run / "recipe.yaml"))
    if not isinstance(recipe, DecomposeRecipe):
        raise MexmaError(f"{run}: a run of an encoder, not of a decomposer")
    data = recipe.data
    pairs = StoredPairs(open_store_pairs(recipe), data.rows, data.validation, recipe.trainer.seed)
    every = pairs.validation(0, pairs.held_out)
    codes = every.target_language.numpy()
    source, target = every.source.numpy(), every.target.numpy()
    return {pairs.languages[one]: (source[codes == one], target[codes == one]) for one in np.unique(codes)}


def found(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Whether the nearest row of the other side is a row's own: bool [2, N]."""
    nearest, own = knn(x, y, 1), np.arange(len(x))
    return np.stack([nearest.forward_ids[:, 0] == own, nearest.backward_ids[:, 0] == own])


def hits(run: Path, pairs: dict[str, Sides]) -> dict[str, Hits]:
    """Those of each part of a run's vectors."""
    decomposer = TrainedDecomposer.open(run)
    return {
        part: {code: found(*(decomposer.part(side, part) for side in sides)) for code, sides in pairs.items()}
        for part in PARTS
    }


def means(one: Hits, unseen: set[str]) -> list[str]:
    """Of all languages, of those that the encoder has seen, and of the others."""
    groups = [set(one), set(one) - unseen, set(one) & unseen]
    return [f"{100 * fmean(one[code].mean() for code in group):.2f}" if group else "" for group in groups]


def p_value(one: Hits, other: Hits) -> float:
    """McNemar's exact test: of the sentences that one of the two finds alone, are half found by either?"""
    both = [(one[code].ravel(), other[code].ravel()) for code in one]
    first, second = (
        int(sum((a & ~b).sum() for a, b in order)) for order in (both, [(b, a) for a, b in both])
    )
    return float(binomtest(first, first + second).pvalue) if first + second else 1.0


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN")
    parser.add_argument("--unseen", default="", help="languages, with commas between them")
    typed = parser.parse_args()
    unseen = {code for code in typed.unseen.split(",") if code}
    pairs = held_out(typed.runs[0])
    if unknown := unseen - set(pairs):
        raise SystemExit(f"--unseen {','.join(unknown)}: the pairs are of {', '.join(pairs)}")
    groups = [f"{part}, {group}" for part in PARTS for group in ("all", "seen", "unseen")]
    print("| run | " + " | ".join([*groups, *(f"p of {part}" for part in PARTS)]) + " |")
    print("|---" * (len(groups) + 3) + "|")
    whole = {code: found(*sides) for code, sides in pairs.items()}
    print("| " + " | ".join([WHOLE, *means(whole, unseen), *[""] * 5]) + " |")
    first: dict[str, Hits] = {}
    for run in typed.runs:
        mine = held_out(run)
        if pairs.keys() != mine.keys() or not all(np.array_equal(pairs[code], mine[code]) for code in pairs):
            raise SystemExit(f"{run} holds out other pairs than {typed.runs[0]}: give both the same seed")
        of = hits(run, pairs)
        cells = [cell for part in PARTS for cell in means(of[part], unseen)]
        cells += [f"{p_value(of[part], first[part]):.2g}" if first else "" for part in PARTS]
        first = first or of
        print("| " + " | ".join([run.name, *cells]) + " |")


if __name__ == "__main__":
    main()
