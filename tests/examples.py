"""Real text for small trainings: the demo's translations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.objectives.bag.loss import Bag
from mexma_cli.objectives.bag.settings import BagSettings
from mexma_cli.objectives.bag.tokenizer import train_tokenizer
from mexma_cli.settings.load import load
from mexma_cli.settings.training import NewEncoder, TrainTokenizer
from mexma_cli.stages.prepare.prepare import prepare

ROOT = Path(__file__).parent.parent


def weighed(sentences: Sequence[str]) -> Iterator[tuple[str, float]]:
    """A tokeniser's training text, all sentences equal."""
    return ((sentence, 1.0) for sentence in sentences)


def demo_pairs(count: int) -> list[str]:
    """The first `count` lines of the demo's gold list: Spanish TAB English."""
    text = (ROOT / "examples" / "spa-eng" / "gold.tsv").read_text(encoding="utf-8")
    return text.splitlines()[:count]


def untrained_bag(settings: BagSettings) -> Bag:
    """Token embeddings as they are before training, of a small vocabulary of words and pieces."""
    text = [side for pair in demo_pairs(300) for side in pair.split("\t")]
    wanted = TrainTokenizer(vocabulary=400, words=150, lowercase=True, latin=True)
    tokenizer = train_tokenizer(wanted, lambda: weighed(text))
    shape = NewEncoder(layers=1, width=64, heads=4, ffn=64, dropout=0.0)
    return Bag(SentenceEncoder.new(shape, tokenizer, max_tokens=40, seed=0), settings)


def prepared(folder: Path, pairs: list[str], keys: dict[str, Any]) -> Path:
    """A recipe in the folder, with these keys, whose text is the Spanish pairs: written and prepared."""
    path = recipe_file(folder, pairs, keys, max_tokens=40)
    prepare(load(path))
    return path


def recipe_file(
    folder: Path, pairs: Sequence[str], keys: dict[str, Any], language: str = "spa_Latn", **data: Any
) -> Path:
    """A recipe in the folder, with these keys and these of its section `data`, whose text is the pairs."""
    (folder / "pairs.tsv").write_text("\n".join(pairs) + "\n", encoding="utf-8")
    corpus = {"name": "own", "format": "tsv", "path": "pairs.tsv", "languages": [language]}
    places = {"root": str(folder), "store": str(folder / "data")}
    raw = {"name": "tiny", "run": str(folder / "run"), "data": {**places, **data, "corpora": [corpus]}} | keys
    raw["trainer"] = {"precision": "fp32"} | raw.get("trainer", {})  # the same numbers on every machine
    path = folder / "recipe.yaml"
    path.write_text(yaml.safe_dump(raw), encoding="utf-8")
    return path


def tiny_recipe(folder: Path, sentences: Mapping[str, Sequence[str]], keys: dict[str, Any]) -> Path:
    """A recipe of a new encoder, 16 wide, on sentences of conftest.py: also its dev set."""
    pairs = ["\t".join(pair) for pair in zip(sentences["fra"], sentences["eng"], strict=True)]
    for side, lines in sentences.items():
        (folder / f"dev.{side}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    encoder = {"new": {"layers": 1, "width": 16, "heads": 2, "ffn": 32}, "tokenizer": {"vocabulary": 300}}
    dev = {"path": "dev.fra", "target_path": "dev.eng", "languages": ["fra_Latn"]}
    return recipe_file(folder, pairs, {"encoder": encoder, "dev": dev} | keys, "fra_Latn", max_tokens=64)


def trains_decomposer(recipe: str) -> bool:
    """Whether a shipped recipe is of `kind: decompose`, by its name: to read all takes seconds."""
    return recipe.rpartition("/")[2].startswith(("dream", "meat", "oracle"))
