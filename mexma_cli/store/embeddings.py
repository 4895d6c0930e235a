"""EmbeddingStore: a folder ``NAME.emb/`` with vectors, their sentences and where they came from.

``manifest.json`` says all about it and is written last; ``vectors-00000.npy`` are plain NumPy arrays
(``np.load(..., mmap_mode="r")``); ``lines-00000.txt.zst`` are the sentences of the same rows. Until it is
finished it lies in ``NAME.emb.partial/``, with a ``progress.json`` beside it in place of the manifest.
"""

from __future__ import annotations

import bisect
import logging
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path

import numpy as np

from mexma_cli.errors import MexmaError
from mexma_cli.files import MANIFEST
from mexma_cli.store.arrays import as_vectors, file_type, mapped, read_array_rows
from mexma_cli.store.folder import Folder
from mexma_cli.store.layout import (
    AGAIN,
    FORMAT_VERSION,
    NAMES,
    EmbeddingManifest,
    EmbeddingSettings,
    check_shard,
    shard_files,
)
from mexma_cli.store.shard import read_shard_lines, read_shard_rows

log = logging.getLogger(__name__)
RAW_FINGERPRINT = "unknown"
"""Encoder fingerprint of a store that was made from raw vectors."""
_ADVICE = "embed both texts with the same --model, --pooling, --max-tokens and --dim"
_RAW_ADVICE = "vectors from `mexma convert` can be compared with others from there, and with no text"


class EmbeddingStore(Folder[EmbeddingManifest]):
    """A finished store, read in constant memory: `mexma embed` writes them, `open` opens them.

    >>> from mexma_cli import EmbeddingStore
    >>> store = EmbeddingStore.open("spa.emb")  # from: mexma embed examples/spa-eng/spa.txt -o spa.emb
    >>> len(store)
    3000
    >>> store.vectors(0, 2).shape
    (2, 320)
    >>> np.asarray(store).shape  # all of them, in memory
    (3000, 320)
    >>> next(store.sentences())
    'Durante algunos meses, ella casi no salió de su cuarto.'
    """

    model, version = EmbeddingManifest, FORMAT_VERSION
    what, ending, names = "embedding store", ".emb", NAMES
    made_by, again = "`mexma embed` makes one of a text, and `mexma split` a text of documents", AGAIN

    def __init__(self, path: Path, manifest: EmbeddingManifest) -> None:
        super().__init__(path, manifest)
        self.rows = manifest.rows
        self.dim = manifest.dim
        self._offsets = [shard.offset for shard in manifest.shards]
        self._ends = list(accumulate(source.lines for source in manifest.sources))
        self._checked: set[int] = set()

    def __repr__(self) -> str:
        shape = f"{self.rows} rows of {self.dim}"
        return f"EmbeddingStore({str(self.path)!r}, {shape}, {self.manifest.language})"

    def __len__(self) -> int:
        return self.rows

    def __array__(self, dtype: np.dtype | None = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError("vectors are read from disk, which makes a copy")
        return np.asarray(self.vectors(0, self.rows), dtype)

    @classmethod
    def checksums(cls, manifest: EmbeddingManifest) -> dict[str, str]:
        return {file.name: file.checksum for shard in manifest.shards for file in shard_files(shard)}

    def vectors(self, start: int, stop: int) -> np.ndarray:
        """Rows `start` to `stop` as stored, float32 [stop - start, dim]."""
        assert 0 <= start <= stop <= self.rows, (start, stop, self.rows)
        out = np.empty((stop - start, self.dim), dtype=np.float32)
        at = start
        while at < stop:
            index = bisect.bisect_right(self._offsets, at) - 1
            shard = self.manifest.shards[index]
            first = at - shard.offset
            last = min(stop - shard.offset, shard.rows)
            self._check(index)
            path = self.path / shard.vectors.name
            with self.reading():
                rows = read_array_rows(path, *file_type(self.manifest.dtype, self.dim), (first, last), AGAIN)
                out[at - start : at - start + last - first] = as_vectors(rows)
            at += last - first
        return out

    def take(self, rows: np.ndarray) -> np.ndarray:
        """Some rows in the order asked for, float32 [n, dim]; read one by one, so in constant memory.

        Args:
            rows: int64 [n], repeated or not.
        """
        assert not len(rows) or 0 <= rows.min() <= rows.max() < self.rows, self.rows
        files = [(shard.offset, self.path / shard.vectors.name) for shard in self.manifest.shards]
        for index in np.unique(np.searchsorted(self._offsets, rows, side="right") - 1).tolist():
            self._check(index)
        with self.reading():
            return read_shard_rows(files, rows, EmbeddingSettings.of(self.manifest))

    def blocks(self, rows: int) -> Iterator[np.ndarray]:
        """All vectors in order, float32 [at most `rows`, dim] at a time."""
        for start in range(0, self.rows, rows):
            yield self.vectors(start, min(start + rows, self.rows))

    @property
    def has_sentences(self) -> bool:
        """Whether the store holds the sentences too (one made from raw vectors may not)."""
        return all(shard.lines is not None for shard in self.manifest.shards)

    def sentences(self) -> Iterator[str]:
        """The sentences, row by row.

        Raises:
            MexmaError: The store has vectors only, or a sentence file is damaged.
        """
        if not self.has_sentences:
            raise MexmaError(f"{self.path} holds vectors without their sentences", "name the text file too")
        for shard in self.manifest.shards:
            assert shard.lines is not None
            self.check_file(shard.lines.name, shard.lines.checksum)
            with self.reading():
                yield from read_shard_lines(self.path, shard)

    def place(self, row: int) -> tuple[int, str]:
        """The line of a row in the text that was embedded, from 1, and the path of that text."""
        sources, part = self.manifest.sources, self.manifest.part
        row += part.rows(self._ends[-1])[0] if part else 0
        index = min(bisect.bisect_right(self._ends, row), len(sources) - 1)
        return row + 1 - (self._ends[index - 1] if index else 0), sources[index].path

    def check_sizes(self) -> None:
        manifest = self.manifest
        rows = 0
        for shard in manifest.shards:
            if shard.offset != rows:
                raise MexmaError(
                    f"{self.path / MANIFEST} is damaged: the shards do not follow one another", AGAIN
                )
            rows += shard.rows
            check_shard(self.path, shard, manifest.dtype, manifest.dim)
        if rows != manifest.rows:
            raise MexmaError(
                f"{self.path / MANIFEST} is damaged: {rows:,} rows in shards, {manifest.rows:,} said", AGAIN
            )

    def _check(self, index: int) -> None:
        """Before a shard's vectors are read for the first time, see that they are what was written."""
        if index not in self._checked:
            shard = self.manifest.shards[index]
            self.check_file(shard.vectors.name, shard.vectors.checksum)
            kind, width = file_type(self.manifest.dtype, self.dim)
            shape = (shard.rows,) if width is None else (shard.rows, width)
            mapped(self.path / shard.vectors.name, shape, kind, AGAIN)
            self._checked.add(index)


StorePair = tuple[EmbeddingStore, EmbeddingStore]
"""Source and target."""


def check_comparable(source: EmbeddingStore, target: EmbeddingStore, any_prompts: bool = False) -> None:
    """Refuse stores whose vectors do not live in one space; the message names both dimensions, encoders or
    prompts. With `any_prompts` they may have been embedded with different prompts, as queries and
    passages."""
    alike = source.dim == target.dim
    if alike or source.manifest.encoder != target.manifest.encoder:
        check_encoder(source, target.manifest.encoder, target.manifest.fingerprint, target.label)
    if not alike:
        raise MexmaError(
            f"different dimensions: {source.label} has {source.dim}, {target.label} has {target.dim}", _ADVICE
        )
    if source.manifest.prefix != target.manifest.prefix and not any_prompts:
        said = [f"{store.manifest.prefix!r} for {store.label}" for store in (source, target)]
        raise MexmaError(
            f"different prompts: {', '.join(said)}",
            "embed both texts with the same --prompt; `mexma search` takes queries and passages",
        )
    if source.manifest.clean != target.manifest.clean:
        both = (source, target) if source.manifest.clean else (target, source)
        log.warning(
            "%s was embedded with --clean and %s was not: translations may be further apart",
            *(store.label for store in both),
        )


def check_encoder(store: EmbeddingStore, encoder: str, fingerprint: str, other: str) -> None:
    """Refuse a store whose vectors are not from the encoder that made, or is about to make, `other`; the
    message names both, with their fingerprints where the names are equal."""
    manifest = store.manifest
    if manifest.fingerprint == fingerprint:
        return
    names = (manifest.encoder, encoder)
    if names[0] == names[1]:
        names = (f"{names[0]} ({manifest.fingerprint[:12]})", f"{names[1]} ({fingerprint[:12]})")
    advice = _RAW_ADVICE if RAW_FINGERPRINT in (manifest.fingerprint, fingerprint) else _ADVICE
    raise MexmaError(f"different encoders: {names[0]} for {store.label}, {names[1]} for {other}", advice)
