"""Real text for small trainings: the demo's translations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.objectives.words import Words
from mexma_cli.recipe import NewEncoder, TrainTokenizer, WordsObjective, load
from mexma_cli.stages.prepare import prepare
from mexma_cli.stages.tokenizer import train_tokenizer

ROOT = Path(__file__).parent.parent


def weighed(sentences: Sequence[str]) -> Iterator[tuple[str, float]]:
    """A tokeniser's training text, all sentences equal."""
    return ((sentence, 1.0) for sentence in sentences)


def demo_pairs(count: int) -> list[str]:
    """The first `count` lines of the demo's gold list: Spanish TAB English."""
    text = (ROOT / "examples" / "spa-eng" / "gold.tsv").read_text(encoding="utf-8")
    return text.splitlines()[:count]


def untrained_words(settings: WordsObjective) -> Words:
    """Token embeddings as they are before training, of a small vocabulary of words and pieces."""
    text = [side for pair in demo_pairs(300) for side in pair.split("\t")]
    wanted = TrainTokenizer(vocabulary=400, words=150, lowercase=True, latin=True)
    tokenizer = train_tokenizer(wanted, lambda: weighed(text))
    shape = NewEncoder(layers=1, width=64, heads=4, ffn=64, dropout=0.0)
    return Words(SentenceEncoder.new(shape, tokenizer, max_tokens=40, seed=0), settings)


def prepared(folder: Path, pairs: list[str], keys: dict[str, Any]) -> Path:
    """A recipe in the folder, with these keys, whose text is the pairs: written and prepared."""
    (folder / "pairs.tsv").write_text("\n".join(pairs) + "\n", encoding="utf-8")
    corpus = {"name": "tatoeba", "format": "tsv", "path": "pairs.tsv", "languages": ["spa_Latn"]}
    data = {"root": str(folder), "store": str(folder / "data"), "max_tokens": 40, "corpora": [corpus]}
    raw = {"name": "tiny", "run": str(folder / "unused"), "data": data} | keys
    path = folder / "recipe.yaml"
    path.write_text(yaml.safe_dump(raw), encoding="utf-8")
    prepare(load(path))
    return path
