"""What the classifier is worth with another encoder than mini, which it was trained with.

    python benchmarks/classifier_encoders.py DIR ENCODER LANGUAGE

(DIR: ntrex128/, tatoeba_mt/ and wmt_newstest/ below it.) Prints best F1 on NTREX-128 with English news as
noise, as benchmarks/classifier.py makes it: by margin; by the bundled weights, which do not look at words
then; and by weights that `mexma classifier train` makes of up to 3,000 pairs of Tatoeba with the encoder.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from classifier import K, ntrex_sets

from mexma_cli import SentenceEncoder
from mexma_cli.classifier.model import Classifier, bundled_weights
from mexma_cli.classifier.pairs import Pairs, known_of
from mexma_cli.classifier.training import Parallel, best_one_to_one, train
from mexma_cli.knn.exact import knn
from mexma_cli.mining.match import match
from mexma_cli.settings.stages import MineSettings
from mexma_cli.text.lines import read_lines

PAIRS = 3000


def main() -> None:
    """Print a line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("encoder")
    parser.add_argument("language")
    arguments = parser.parse_args()
    encoder = SentenceEncoder.load(arguments.encoder, "cpu")
    lines = read_lines(arguments.data / f"tatoeba_mt/{arguments.language}-eng.tsv.gz")
    pairs = dict(
        tuple(line.split("\t")[:2]) for line in lines if line.count("\t") and all(line.split("\t")[:2])
    )
    own = list({english: text for text, english in pairs.items()}.items())[:PAIRS]
    texts = [text for _, text in own], [english for english, _ in own]
    parallel = Parallel(texts, (encoder.embed(texts[0]), encoder.embed(texts[1])), encoder.embed)
    start = replace(bundled_weights(), encoder=encoder.name, fingerprint=encoder.fingerprint, dim=encoder.dim)
    trained = train(parallel, start, K).weights
    ((name, sides, gold),) = ntrex_sets(arguments.data, [arguments.language])
    near = knn(encoder.embed(sides[0]), encoder.embed(sides[1]), K)
    known = known_of(near, (partial(iter, sides[0]), partial(iter, sides[1])), encoder.embed)
    found = Pairs(match(near, MineSettings(retrieval="all")), known)
    rows = zip(found.candidates.source.tolist(), found.candidates.target.tolist(), strict=True)
    correct, size = np.array([pair in gold for pair in rows]), (len(sides[0]), len(sides[1]))

    def f1(judge: Classifier | None) -> float:
        scores = found.candidates.scores
        if judge:
            scores = np.concatenate([some.scores for some in judge.scored(found)])
        return 100 * best_one_to_one(found.candidates, scores, correct, size, len(gold))[0].f1

    row = [f1(None), f1(bundled_weights().by["text"]), f1(trained.by["words"])]
    print(f"| {encoder.name} | {name} | {len(own)} | {' | '.join(f'{value:.1f}' for value in row)} |")


if __name__ == "__main__":
    main()
