"""mini's recipe against simpler ones on the same text, in the same time: the table of notes/mini.md.

    python benchmarks/baselines.py --data DIR [--seeds 3] [--only NAME ...] [--set KEY=VALUE] [--out DIR]

(DIR: what recipes/mini.yaml reads, and ntrex128/, tatoeba/ and mining/.) Each recipe of recipes/baselines
takes five to fifteen minutes of one core. What is finished is kept in --out, as in
benchmarks/reproduction.py. `characters` is TF-IDF of character n-grams, with weights from
the same text; it has no seed.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from encoder import scores
from reproduction import MEASURES, START, Result, Runs, arguments, table
from sklearn.feature_extraction.text import HashingVectorizer, TfidfTransformer

from mexma_cli.settings.load import load
from mexma_cli.stages.prepare.prepare import prepare
from mexma_cli.stages.prepare.tokenizer import load_fast_tokenizer, tokenizer_path
from mexma_cli.stages.train.train import open_stores

CHARACTERS = "characters"
BASE = "baselines/mexma"
FROM_NOTHING = ("baselines/plain-bag", "baselines/contrastive-only")
"""Measured after their own first phase; the others go on from that of `BASE`."""
OTHERS = ("contrastive", "contrastive-long", "contrastive-mexma", "sentence-gradients")
NAMES = (BASE, START, *(f"baselines/{name}" for name in OTHERS), *FROM_NOTHING, CHARACTERS)
"""`bag` is the start alone: token embeddings."""
WIDTH = 4096
"""Columns that n-grams are hashed into."""
SAMPLE = 100_000
"""Pairs that the weights of n-grams are from."""


class Characters:
    """TF-IDF of the n-grams of 2 to 5 characters inside words."""

    def __init__(self, sentences: Sequence[str]) -> None:
        self.counts = HashingVectorizer(analyzer="char_wb", ngram_range=(2, 5), n_features=WIDTH, norm=None)
        self.weights = TfidfTransformer().fit(self.counts.transform(sentences))

    def embed(self, sentences: Sequence[str]) -> np.ndarray:
        """float32 [n, WIDTH], unit length."""
        found = self.weights.transform(self.counts.transform(sentences))
        return np.asarray(found.toarray(), dtype=np.float32)


class Baselines(Runs):
    """Runs of the recipes, and `characters`."""

    def trained(self, name: str, seed: int) -> Path:
        """The run of a recipe."""
        return self.start(seed, name) if name in FROM_NOTHING else super().trained(name, seed)

    def measured(self, name: str, seed: int) -> Result:
        """Train or fit, and measure."""
        if name != CHARACTERS:
            return super().measured(name, seed)
        recipe = self.recipe(BASE, seed, self.out / CHARACTERS)
        prepare(recipe)
        tokenizer = load_fast_tokenizer(tokenizer_path(recipe))
        stores = open_stores(recipe)
        share = max(1, sum(map(len, stores)) // SAMPLE)
        ids = [side for store in stores for row in range(0, len(store), share) for side in store.pair(row)]
        began = time.perf_counter()
        encoder = Characters(tokenizer.batch_decode(ids))
        return scores(encoder, self.data, self.languages) | {"training": time.perf_counter() - began}


def main() -> None:
    """Train and measure what is missing, and print the table."""
    typed = arguments(__doc__, NAMES, Path("runs/baselines"))
    dev = load(BASE).dev
    assert dev is not None
    runs = Baselines(typed.data, typed.out, typed.overrides, BASE, dev.languages)
    for seed in range(1, typed.seeds + 1) if not typed.tables else ():
        for name in typed.only:
            if name != CHARACTERS or seed == 1:
                runs.result(name, seed)
    print("\n" + table(runs, "Baselines", NAMES, MEASURES | {"training": "seconds"}))


if __name__ == "__main__":
    main()
