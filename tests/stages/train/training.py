"""A small training, for tests of `train`: its recipe, and what a run leaves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mexma_cli.settings.load import load
from mexma_cli.settings.training import Recipe

ROOT = Path(__file__).parent.parent.parent.parent
BAG_STEPS, MEXMA_STEPS = 7, 12


def settings(recipe_file: Path, run: Path, *overrides: str) -> Recipe:
    return load(recipe_file, [f"run={run}", *overrides])


def log_of(run: Path) -> list[dict[str, Any]]:
    """The log without what a clock decides."""
    records = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    for record in records:
        del record["tokens_per_second"], record["seconds"]
    return records


def weights(run: Path) -> bytes:
    return (run / "encoder" / "model.safetensors").read_bytes()
