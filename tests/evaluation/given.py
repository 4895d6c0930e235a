"""What tests of evaluations give: files, and an embedder whose vectors they know."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mexma_cli.evaluation.embedder import Embedder


def put(folder: Path, files: Mapping[str, str]) -> Path:
    """Write files by name into a folder, those that end in .gz compressed; the folder again."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return folder


class Known(Embedder):
    """Vectors from a function in place of an encoder."""

    def __init__(self, embed: Callable[[Sequence[str]], np.ndarray]) -> None:
        self.embed = embed

    def __call__(
        self, sentences: Sequence[str], language: str | None = None, key_parts: Sequence[str] = ()
    ) -> np.ndarray:
        return self.embed(sentences)

    def takes(self, language: str) -> bool:
        return True

    @property
    def languages(self) -> tuple[str, ...]:
        return ()

    def describe(self) -> dict[str, Any]:
        return {"name": "x"}
