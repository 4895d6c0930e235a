"""An embedder for tests that know the vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mexma_cli.evaluation.embedder import Embed, Embedder


class Known(Embedder):
    """Vectors from a function in place of an encoder."""

    def __init__(self, embed: Embed) -> None:
        self.embed = embed

    def __call__(self, sentences: Sequence[str], key_parts: Sequence[str] = ()) -> np.ndarray:
        return self.embed(sentences)

    def describe(self) -> dict[str, Any]:
        return {"name": "x"}
