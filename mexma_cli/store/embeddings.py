"""EmbeddingStore: a folder ``NAME.emb/`` with vectors, their sentences and where they came from.

``manifest.json`` says all about it and is written last; ``vectors-00000.npy`` are plain NumPy arrays
(``np.load(..., mmap_mode="r")``); ``lines-00000.txt.zst`` are the sentences of the same rows. Until it is
finished it lies in ``NAME.emb.partial/``, with a ``progress.json`` beside it in place of the manifest.
"""

from __future__ import annotations

from mexma_cli.store.layout import EmbeddingManifest, EmbeddingSettings, Source
from mexma_cli.store.reader import EmbeddingStore, StorePair
from mexma_cli.store.writer import ROWS_PER_SHARD, EmbeddingWriter, made_already

__all__ = [
    "ROWS_PER_SHARD",
    "EmbeddingManifest",
    "EmbeddingSettings",
    "EmbeddingStore",
    "EmbeddingWriter",
    "Source",
    "StorePair",
    "made_already",
]
