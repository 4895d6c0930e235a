"""xsim++ by margin and by probability, by type of error: a table in docs/concepts/classifier.md.

    mexma augment NTREX/eng_Latn.txt.gz -o HARD
    python benchmarks/xsimpp.py NTREX --augmented HARD [--languages ita,spa,ukr]

(NTREX: the texts of NTREX-128, a file a language.) Each sentence takes the English sentence or hard negative
with the best score: of ratio margins, as `mexma eval xsimpp` does, or of the bundled classifier's
probabilities, among the neighbours that `mine` looks at. The default languages are not among those on which
the weights were trained; nothing was trained on hard negatives.
"""

from __future__ import annotations

import argparse
from collections import Counter
from functools import partial
from pathlib import Path

import numpy as np

from mexma_cli import SentenceEncoder
from mexma_cli.classifier.model import bundled_weights
from mexma_cli.classifier.pairs import Pairs, known_of
from mexma_cli.evaluation.aligned import read_texts
from mexma_cli.evaluation.augment import find_augmented
from mexma_cli.evaluation.xsim import xsim_of
from mexma_cli.knn.exact import knn
from mexma_cli.mining.match import match
from mexma_cli.settings.stages import MineSettings

K = 4


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--augmented", type=Path, required=True)
    parser.add_argument("--languages", default="ita,spa,ukr")
    arguments = parser.parse_args()
    encoder = SentenceEncoder.load("mini", "cpu")
    data = read_texts(arguments.data, "devtest", arguments.languages, "eng_Latn")
    hard = find_augmented(data, arguments.augmented)
    kinds = [*sorted({kind for _, kind in hard.kinds.values()} - {"misaligned"}), "misaligned"]
    print(
        f"| language | scored by | xsim++ | {' | '.join(kinds)} |\n| --- | --- |{' --- |' * (1 + len(kinds))}"
    )
    targets = data.lines + hard.lines
    english = encoder.embed(targets)
    for language, lines in data.texts.items():
        near = knn(encoder.embed(lines), english, K)
        sides = known_of(near, (partial(iter, lines), partial(iter, targets)), encoder.embed)
        found = {"margin": xsim_of(near, texts=targets).found}
        pairs = Pairs(match(near, MineSettings(retrieval="all")), sides)
        best, chosen = np.full(len(lines), -1.0), found["margin"].copy()
        for some in bundled_weights().by["words"].scored(pairs):
            for score, row, other in zip(
                some.scores, some.source.tolist(), some.target.tolist(), strict=True
            ):
                if score > best[row]:
                    best[row], chosen[row] = score, other
        found["probability"] = chosen
        for name, rows in found.items():
            wrong = [row for row, other in enumerate(rows.tolist()) if targets[other] != targets[row]]
            counts = Counter(hard.kind(targets[rows[row]], targets[row]) for row in wrong)
            shares = [100 * count / len(lines) for count in (len(wrong), *(counts[kind] for kind in kinds))]
            print(f"| {language} | {name} | {' | '.join(f'{share:.2f}' for share in shares)} |", flush=True)


if __name__ == "__main__":
    main()
