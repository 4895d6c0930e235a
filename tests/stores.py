"""Embedding stores of any sentences and vectors, what is in their folders, and what damages them."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mexma_cli.settings.stages import EncoderChoice, MineSettings
from mexma_cli.stages.mine.files import mined
from mexma_cli.stages.mine.mine import Mined, MiningJob
from mexma_cli.store.embeddings import EmbeddingStore
from mexma_cli.store.layout import EmbeddingSettings, Source
from mexma_cli.store.writer import EmbeddingWriter


def embedding_writer(path: Path, dim: int, lines: int, **other: Any) -> EmbeddingWriter:
    """A writer of so many rows, in shards of 16 and float32.

    Args:
        other: `rows_per_shard`, fields of `EmbeddingSettings` and arguments of `EmbeddingWriter` that matter
            in a test.
    """
    source = other.pop("source", Source(path=path.stem, checksum=path.name, lines=lines))
    settings: dict[str, Any] = {
        "fingerprint": "f",
        "pooling": "cls",
        "dim": dim,
        "dtype": "float32",
        "precision": "float32",
        "normalised": False,
        "language": "und",
        "source_checksum": source.checksum,
    }
    settings |= {name: other.pop(name) for name in EmbeddingSettings.model_fields if name in other}
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = other.pop("rows_per_shard", 16)
    how: dict[str, Any] = {"encoder": "test"} | other
    writer = EmbeddingWriter(path, EmbeddingSettings.model_validate(settings), source, **how)
    writer.rows_per_shard = rows
    return writer


@contextmanager
def shards_of(rows: int) -> Iterator[None]:
    """Stores written meanwhile have so many rows in their first shards; a decorator of tests, too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(EmbeddingWriter, "rows_per_shard", rows)
        yield


def make_store(
    path: Path, sentences: Sequence[str] | None, vectors: np.ndarray, **other: Any
) -> EmbeddingStore:
    """Write a store of these rows; `other` as in `embedding_writer`."""
    with embedding_writer(path, vectors.shape[1], len(vectors), **other) as writer:
        writer.write(vectors, sentences)
        return writer.finish()


def mine(
    source: EmbeddingStore,
    target: EmbeddingStore,
    settings: MineSettings = MineSettings(),
    on_progress: Callable[[int, int], None] | None = None,
    **job: Any,
) -> Mined:
    """What is mined in two stores; `job` as in `MiningJob`."""
    paths = source.path, target.path
    wanted = MiningJob(paths, settings=settings, **job)
    with mined(wanted, EncoderChoice(), on_progress=on_progress) as run:
        return run.found


def content(folder: Path) -> dict[str, bytes]:
    """The files of a folder."""
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def flip(path: Path, at: int = -1) -> None:
    """Change one bit of a file."""
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def full_disk(*_: object) -> None:
    """In place of what writes to the disk."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
