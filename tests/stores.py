"""Embedding stores of any sentences and vectors."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mexma_cli.store.embeddings import EmbeddingStore, EmbeddingWriter, Source


def make_store(
    path: Path, sentences: Sequence[str] | None, vectors: np.ndarray, **other: Any
) -> EmbeddingStore:
    """Write a store of these rows, in shards of 16; `other` are the writer's arguments that matter here."""
    settings: dict[str, Any] = {
        "encoder": "test",
        "fingerprint": "f",
        "pooling": "cls",
        "dim": vectors.shape[1],
        "dtype": "float32",
        "normalised": False,
        "language": "und",
        "source": Source(path=path.stem, checksum=path.name, lines=len(vectors)),
        "argv": (),
        "rows_per_shard": 16,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    with EmbeddingWriter(path, **(settings | other)) as writer:
        writer.write(vectors, sentences)
        return writer.finish()
