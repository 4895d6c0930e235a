"""One shard of an EmbeddingStore while it is written."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import zstandard

from mexma_cli.store.layout import File, Settings, Shard
from mexma_cli.store.manifest import ArrayWriter, aside, checksum_file, fsync_file, fsync_folder


class OpenShard:
    """The shard that is being written, under other names than its own."""

    def __init__(self, folder: Path, index: int, settings: Settings, with_sentences: bool) -> None:
        self._vectors_path = folder / f"vectors-{index:05d}.npy"
        self._lines_path = folder / f"lines-{index:05d}.txt.zst" if with_sentences else None
        self.rows = self.truncated = self.empty = 0
        self._files = [aside(self._vectors_path).open("wb")]
        self._array = ArrayWriter(self._files[0], settings.dtype, settings.dim)
        if self._lines_path:
            self._files.append(aside(self._lines_path).open("wb"))
            self._packer = zstandard.ZstdCompressor(level=3, write_checksum=True).compressobj()

    def write(self, vectors: np.ndarray, sentences: Sequence[str] | None) -> None:
        assert (sentences is None) == (self._lines_path is None), (
            "sentences for all rows of a store or for none"
        )
        self._array.write(vectors)
        self.rows += len(vectors)
        if sentences is not None:
            assert not any("\n" in sentence for sentence in sentences), "a sentence is one line"
            self.empty += sum(not sentence or sentence.isspace() for sentence in sentences)
            text = "".join(f"{sentence}\n" for sentence in sentences)
            self._files[1].write(self._packer.compress(text.encode("utf-8")))

    def close(self, offset: int) -> Shard:
        self._array.close()
        paths = [self._vectors_path]
        if self._lines_path:
            self._files[1].write(self._packer.flush())
            paths.append(self._lines_path)
        files = []
        for file, path in zip(self._files, paths, strict=True):
            fsync_file(file)
            file.close()
            part = aside(path)
            files.append(File(name=path.name, bytes=part.stat().st_size, checksum=checksum_file(part)))
            part.replace(path)
        fsync_folder(self._vectors_path.parent)
        return Shard(
            rows=self.rows,
            offset=offset,
            vectors=files[0],
            lines=files[1] if self._lines_path else None,
            truncated=self.truncated,
            empty=self.empty,
        )

    def discard(self) -> None:
        """Leave nothing of it."""
        for file, path in zip(self._files, [self._vectors_path, self._lines_path], strict=False):
            with contextlib.suppress(OSError):  # what is still buffered does not matter any more
                file.close()
            if path:
                aside(path).unlink(missing_ok=True)
