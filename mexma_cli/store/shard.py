"""One shard of an EmbeddingStore: while it is written, or taken over from another store."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import zstandard

from mexma_cli.errors import MexmaError
from mexma_cli.files import fsync_file, whole_file
from mexma_cli.store.arrays import ArrayWriter, as_vectors, check_content, cut_short, file_size, file_type
from mexma_cli.store.folder import File
from mexma_cli.store.layout import AGAIN, EmbeddingSettings, Shard, lines_name, vectors_name
from mexma_cli.text.compression import BLOCK, ZST, decompressed
from mexma_cli.text.lines import is_blank

_NO_LINKS = {errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}
"""Errors where a file cannot get a second name: another disk, another owner, or no links at all."""


def take_over(shard: Shard, store: Path, folder: Path, index: int, offset: int) -> Shard:
    """Make a shard of a finished store the shard `index` of another one, from row `offset` on. Its files get
    a second name where the system allows that, so that they take no space; else they are copied."""
    vectors = shard.vectors.model_copy(update={"name": vectors_name(index)})
    lines = shard.lines and shard.lines.model_copy(update={"name": lines_name(index)})
    link_or_copy(store / shard.vectors.name, folder / vectors.name, vectors.checksum)
    if shard.lines and lines:
        link_or_copy(store / shard.lines.name, folder / lines.name, lines.checksum)
    return shard.model_copy(update={"offset": offset, "vectors": vectors, "lines": lines})


def link_or_copy(source: Path, target: Path, checksum: str, hint: str = AGAIN) -> None:
    """Give a file a second name, where the system allows that; else copy it, and refuse a copy with another
    checksum."""
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        with source.open("rb") as read, whole_file(target) as write:
            shutil.copyfileobj(read, write, 4 << 20)
        check_content(target, checksum, hint)


def read_shard_rows(
    files: Sequence[tuple[int, Path]], rows: np.ndarray, settings: EmbeddingSettings
) -> np.ndarray:
    """Some rows, int64 [n], of a store, float32 [n, dim], from vector files, each with its first row, in
    order; one that is too short is refused."""
    kind, width = file_type(settings.dtype, settings.dim)
    found = np.empty((len(rows), kind.itemsize * (width or 1)), np.uint8)
    places = np.searchsorted([first for first, _ in files], rows, side="right") - 1
    for index in np.unique(places):
        first, path = files[index]
        with path.open("rb", buffering=0) as file:
            for at in np.flatnonzero(places == index):
                file.seek(file_size(int(rows[at]) - first, kind, width))
                if file.readinto(found[at].data) != found[at].nbytes:
                    raise cut_short(path, AGAIN)
    return as_vectors(found.view(kind) if width else found.view(kind)[:, 0])


def read_shard_lines(folder: Path, shard: Shard) -> Iterator[str]:
    """The sentences of a shard, of which a few million characters are in memory at a time; a damaged file is
    refused."""
    assert shard.lines is not None
    path = folder / shard.lines.name
    count, rest = 0, b""
    with path.open("rb") as file:
        for block in decompressed(file, ZST, str(path)):
            whole, end, rest = (rest + block).rpartition(b"\n")
            try:
                rows = whole.decode("utf-8").split("\n") if end else []
            except UnicodeDecodeError as error:
                raise MexmaError(f"{path} is damaged ({error})", AGAIN) from None
            count += len(rows)
            if count > shard.rows or len(rest) > BLOCK:
                break
            yield from rows
    if count != shard.rows or rest:
        more = "more than " * (count > shard.rows)
        found = f"{more}{min(count, shard.rows):,} lines"
        raise MexmaError(f"{path} is damaged: {found}, the manifest says {shard.rows:,}", AGAIN)


class OpenShard:
    """The shard that is being written."""

    def __init__(self, folder: Path, index: int, settings: EmbeddingSettings, with_sentences: bool) -> None:
        self._vectors_path = folder / vectors_name(index)
        self._lines_path = folder / lines_name(index) if with_sentences else None
        self.rows = self.truncated = self.empty = self.duplicates = 0
        self._files = [self._vectors_path.open("wb")]
        self._array = ArrayWriter(self._files[0], *file_type(settings.dtype, settings.dim))
        if self._lines_path:
            self._files.append(self._lines_path.open("wb"))
            self._packer = zstandard.ZstdCompressor(level=3, write_checksum=True).compressobj()

    def write(self, vectors: np.ndarray, sentences: Sequence[str] | None) -> None:
        assert (sentences is None) == (self._lines_path is None), (
            "sentences for all rows of a store or for none"
        )
        self._array.write(vectors)
        self.rows += len(vectors)
        if sentences is not None:
            assert not any("\n" in sentence for sentence in sentences), "a sentence is one line"
            self.empty += sum(map(is_blank, sentences))
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
            files.append(File.of(path))
        return Shard(
            rows=self.rows,
            offset=offset,
            vectors=files[0],
            lines=files[1] if self._lines_path else None,
            truncated=self.truncated,
            empty=self.empty,
            duplicates=self.duplicates,
        )

    def so_far(self) -> Path:
        """The vector file with all rows written to it; its header is not right yet."""
        self._files[0].flush()
        return self._vectors_path

    def discard(self) -> None:
        """Remove its files."""
        for file, path in zip(self._files, [self._vectors_path, self._lines_path], strict=False):
            with contextlib.suppress(OSError):  # buffered bytes do not matter any more
                file.close()
            if path:
                path.unlink(missing_ok=True)
