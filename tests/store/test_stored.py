"""Rows of a store that are read back while it is being written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mexma_cli.store.embeddings import EmbeddingStore, EmbeddingWriter, Source
from tests.stores import embedding_writer

DIM = 6


def writer(path: Path, dtype: str, rows: int, append: bool = False) -> EmbeddingWriter:
    source = Source(path="text", checksum="0", lines=rows)
    return embedding_writer(path, DIM, rows, dtype=dtype, source=source, rows_per_shard=4, append=append)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_rows_come_back_as_they_were_written(dtype: str, tmp_path: Path) -> None:
    """From whole shards and the open one, in any order, more than once, with no row lost by it."""
    vectors = np.random.default_rng(0).standard_normal((14, DIM)).astype(np.float32)
    wanted = np.array([13, 0, 5, 5, 12, 3, 8, 4, 7])
    with writer(tmp_path / "a.emb", dtype, 14) as out:
        out.write(vectors[:10], None)
        out.write(vectors[10:], None)
        found = out.stored(wanted)
        assert found.dtype == np.dtype(dtype)
        np.testing.assert_array_equal(found, vectors[wanted].astype(dtype))
        assert out.stored(np.empty(0, np.int64)).shape == (0, DIM)
        store = out.finish(truncated=0, empty=0)
    np.testing.assert_array_equal(store.vectors(0, 14), vectors.astype(dtype).astype(np.float32))


def test_rows_are_those_of_the_text_that_is_appended(tmp_path: Path) -> None:
    vectors = np.random.default_rng(0).standard_normal((9, DIM)).astype(np.float32)
    sentences = [f"sentence {row}" for row in range(9)]
    for start, stop in ((0, 6), (6, 9)):
        with writer(tmp_path / "a.emb", "float32", stop - start, append=start > 0) as out:
            out.write(vectors[start:stop], sentences[start:stop], duplicates=start // 3)
            np.testing.assert_array_equal(out.stored(np.array([2, 0])), vectors[[start + 2, start]])
            out.finish()
    assert EmbeddingStore.open(tmp_path / "a.emb").manifest.duplicates == 2
