"""All inner loops, compiled ahead: a little of every kind of work, on made-up text."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.errors import quieted
from mexma_cli.knn.approximate import ann
from mexma_cli.knn.choice import kinds
from mexma_cli.knn.cosines import EMPTY
from mexma_cli.knn.exact_search import ExactSearch, SearchPlace
from mexma_cli.knn.sides import SearchSide
from mexma_cli.mining.candidates import Candidates
from mexma_cli.mining.retrieval import COMPILED_FROM, OneToOne
from mexma_cli.numerics import bags
from mexma_cli.numerics.quantised import QuantisedRows
from mexma_cli.settings.load import load
from mexma_cli.settings.stages import SearchSettings
from mexma_cli.stages.prepare.prepare import prepare
from mexma_cli.stages.train.train import train
from mexma_cli.text.identify import Py3Langid
from mexma_cli.text.near_duplicates import Signatures

_K = 4
_RECIPE = """
name: warm
run: {folder}/run
data:
  root: {folder}
  store: {folder}/data
  corpora:
    - {{name: text, format: tsv, path: pairs.tsv, languages: [fra_Latn], target: eng_Latn}}
encoder:
  new: {{layers: 1, width: 64, heads: 2, ffn: 64, dropout: 0.1}}
  tokenizer: {{vocabulary: 300}}
phases:
  - name: bag
    objective: {{name: bag, ngrams: [3]}}
    trainer: {{steps: 1, batch_pairs: 8, accumulate: 1}}
  - name: mexma
    objective: {{name: mexma, head: {{layers: 1, heads: 2, ffn: 64}}}}
    trainer: {{steps: 1, batch_pairs: 8, accumulate: 1}}
"""


def compile_all() -> None:
    """Embed, search and train a little, so that all that is compiled is kept."""
    for work in WORK.values():
        work()


def _embed() -> None:
    for precision in ("float32", "bfloat16"):
        SentenceEncoder.load("mini", "cpu", precision).embed(["Where is the station?", "Où est la gare ?"])


def _embed_much() -> None:
    one, places = np.zeros((1, 64)), np.zeros(bags.LOOPS_FROM // 64, np.int64)
    coded = QuantisedRows(one.astype(np.uint8), np.zeros(1, np.float16), np.zeros((1, 1), np.float32), 64)
    for rows in (coded, one, one.astype(np.float32)):
        bags.sums(rows, places, np.array([len(places)]))


def _sides() -> tuple[np.ndarray, np.ndarray]:
    x, y = np.random.default_rng(0).standard_normal((2, 600, 64)).astype(np.float32)
    return x, y


def _search() -> None:
    sides = tuple(SearchSide(vectors, None) for vectors in _sides())
    samples = sides[0].sample(), sides[1].sample()
    for kind in kinds():
        lists = tuple(np.full((len(side), _K), EMPTY, dtype=np.int64) for side in sides)
        ExactSearch((sides[0], sides[1]), (lists[0], lists[1]), kind(samples)).run(SearchPlace(600, 0, 0))


def _search_index() -> None:
    ann(*_sides(), _K, SearchSettings(index="IVF2,Flat", recall=0.1))


def _identify() -> None:
    lines = ["Where is the station?", "Où est la gare ?"] * 4
    Py3Langid().identify(lines)


def _near_duplicates() -> None:
    Signatures(0.8).bands(["Where is the station?"])


def _match() -> None:
    rows = np.arange(COMPILED_FROM)
    pairs = Candidates(np.zeros(len(rows), np.float32), rows, rows, np.zeros(len(rows), np.float32))
    OneToOne((len(rows), len(rows))).taken(pairs)


def _train() -> None:
    with tempfile.TemporaryDirectory() as folder:
        _train_in(Path(folder))


def _train_in(folder: Path) -> None:
    rng = np.random.default_rng(0)
    words = ["".join(chr(97 + letter) for letter in rng.integers(0, 26, 5)) for _ in range(200)]
    lines = [" ".join(rng.choice(words, 6)) for _ in range(400)]
    (folder / "pairs.tsv").write_text(
        "".join(f"{a}\t{b}\n" for a, b in zip(lines[::2], lines[1::2], strict=True))
    )
    (folder / "recipe.yaml").write_text(_RECIPE.format(folder=folder))
    recipe = load(folder / "recipe.yaml")
    with quieted():  # so little text would be warned of
        prepare(recipe)
        train(recipe)


WORK = {
    "searching": _search,
    "searching an index": _search_index,
    "embedding by a transformer": _embed,
    "embedding much text by a bag": _embed_much,
    "language identification": _identify,
    "near-duplicates": _near_duplicates,
    "matching many pairs": _match,
    "training": _train,
}
"""The functions that compile loops, by name."""
