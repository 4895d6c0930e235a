"""Recipes for tests of `prepare`, and what its stores hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from mexma_cli.settings.load import load
from mexma_cli.settings.training import Recipe
from mexma_cli.stages.prepare.prepare import CorpusReport
from mexma_cli.stages.prepare.tokenizer import load_fast_tokenizer
from mexma_cli.store.pairs import TokenisedPairs


def recipe(folder: Path, encoder: dict[str, Any], **data: Any) -> Recipe:
    content = {
        "name": "small",
        "run": str(folder / "run"),
        "data": {
            "root": str(folder),
            "store": str(folder / "store"),
            "max_tokens": 64,
            "exclude": ["test*.txt"],
            "corpora": [
                {"name": "tsv", "format": "tsv", "path": "{lang}-eng.tsv.gz", "languages": ["fra"]},
                {
                    "name": "verses",
                    "format": "aligned",
                    "source_path": "a.{lang}",
                    "target_path": "a.eng",
                    "languages": ["fra"],
                    "keep": {"path": "split.txt", "value": "train"},
                },
            ],
        }
        | data,
        "encoder": encoder,
        "objective": {"name": "contrastive", "hard_negatives": 0.5 if data.get("negatives") else 0.0},
        "trainer": {"steps": 1},
    }
    path = folder / "recipe.yaml"
    path.write_text(yaml.safe_dump(content, allow_unicode=True))
    return load(path)


def texts(report: CorpusReport, tokenizer: Path) -> list[tuple[str, str]]:
    store, decoder = TokenisedPairs.open(report.path, verify=True), load_fast_tokenizer(tokenizer)
    return [tuple(decoder.decode(ids) for ids in store.pair(row)) for row in range(len(store))]  # type: ignore[misc]
