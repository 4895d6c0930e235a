"""EmbeddingStore: a folder ``NAME.emb/`` with vectors, their sentences and where they came from.

``manifest.json`` says all about it and is written last; ``vectors-00000.npy`` are plain NumPy arrays
(``np.load(..., mmap_mode="r")``); ``lines-00000.txt.zst`` are the sentences of the same rows. Until it is
finished the folder is called ``NAME.emb.partial/`` and has a ``progress.json`` in place of the manifest.
"""

from __future__ import annotations

import bisect
import logging
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

import numpy as np
import zstandard

from mexma_cli import __version__
from mexma_cli.errors import MexmaError
from mexma_cli.store.layout import (
    FORMAT_VERSION,
    MANIFEST,
    PROGRESS,
    EmbeddingManifest,
    Progress,
    Settings,
    Shard,
    Source,
    StoreType,
    check_replaceable,
    check_shard,
    files_of,
    partial,
)
from mexma_cli.store.manifest import (
    checksum_file,
    commit_folder,
    file_size,
    no_space_as_message,
    only_writer,
    read_manifest,
    write_json_atomic,
)
from mexma_cli.store.shard import OpenShard

__all__ = ["EmbeddingManifest", "EmbeddingStore", "EmbeddingWriter", "Settings", "Source"]

log = logging.getLogger(__name__)

ROWS_PER_SHARD = 1 << 13
"""Rows in each of the first 16 shards; the next 64 have 8 times as many, all others 64 times: little is lost
when a short or slow run is killed, and a billion rows are 2000 files."""


def shard_rows(index: int, first: int = ROWS_PER_SHARD) -> int:
    """Rows of a full shard, where the first ones have `first`."""
    return first * (1 if index < 16 else 8 if index < 80 else 64)


class EmbeddingStore:
    """A finished store, read in constant memory. Make one with `open`."""

    def __init__(self, path: Path, manifest: EmbeddingManifest) -> None:
        self.path = path
        self.manifest = manifest
        self.rows = manifest.rows
        self.dim = manifest.dim
        self._offsets = [shard.offset for shard in manifest.shards]
        self._checked: set[int] = set()

    @classmethod
    def open(cls, path: str | Path, verify: bool = False) -> EmbeddingStore:
        """Open a store and check that all its files are there in full length.

        Args:
            path: The folder.
            verify: Also read everything and compare the checksums.

        Raises:
            MexmaError: No store, an unfinished one, or a file that is missing, short or damaged.
        """
        folder = Path(path)
        if not (folder / MANIFEST).is_file():
            raise _no_store(folder)
        store = cls(folder, read_manifest(folder / MANIFEST, EmbeddingManifest, FORMAT_VERSION))
        store._check_sizes()
        if verify:
            store.verify()
        return store

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
            out[at - start : at - start + last - first] = self._read(index, first, last)
            at += last - first
        return out

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
            path = self.path / shard.lines.name
            try:
                text = zstandard.ZstdDecompressor().decompressobj().decompress(path.read_bytes())
                rows = text.decode("utf-8").split("\n")
            except (zstandard.ZstdError, UnicodeDecodeError) as error:
                raise MexmaError(f"{path} is damaged ({error})", "embed the text again") from None
            if len(rows) != shard.rows + 1 or rows[-1]:
                raise MexmaError(
                    f"{path} is damaged: {len(rows) - 1:,} lines, the manifest says {shard.rows:,}"
                )
            yield from rows[:-1]

    def verify(self) -> None:
        """Read all files and compare their checksums with the manifest's.

        Raises:
            MexmaError: A file is not what was written; the message names it.
        """
        self._check_sizes()
        for shard in self.manifest.shards:
            for file in files_of(shard):
                if checksum_file(self.path / file.name) != file.checksum:
                    raise MexmaError(
                        f"{self.path / file.name} is damaged: its checksum is not the manifest's",
                        "embed the text again",
                    )

    def _check_sizes(self) -> None:
        manifest = self.manifest
        rows = 0
        for shard in manifest.shards:
            if shard.offset != rows:
                raise MexmaError(f"{self.path / MANIFEST} is damaged: the shards do not follow one another")
            rows += shard.rows
            check_shard(self.path, shard, manifest.dtype, manifest.dim)
        if rows != manifest.rows:
            raise MexmaError(
                f"{self.path / MANIFEST} is damaged: {rows:,} rows in shards, {manifest.rows:,} said"
            )

    def _read(self, index: int, first: int, last: int) -> np.ndarray:
        """Some rows of a shard. Read, not mapped: mapped pages would count as this process's memory."""
        shard, manifest = self.manifest.shards[index], self.manifest
        path = self.path / shard.vectors.name
        if index not in self._checked:
            try:
                array = np.load(path, mmap_mode="r", allow_pickle=False)
            except ValueError as error:
                raise MexmaError(f"{path} is damaged ({error})", "embed the text again") from None
            if array.shape != (shard.rows, self.dim) or array.dtype != np.dtype(manifest.dtype):
                raise MexmaError(
                    f"{path} is damaged: {array.dtype} {array.shape}, the manifest says "
                    f"{manifest.dtype} {(shard.rows, self.dim)}"
                )
            self._checked.add(index)
        offset, count = file_size(first, manifest.dtype, self.dim), (last - first) * self.dim
        return np.fromfile(path, manifest.dtype, count, offset=offset).reshape(-1, self.dim)


class EmbeddingWriter:
    """Makes a store, shard by shard; opened again with the same settings it goes on after the last shard.

    Use as a context manager: `write` the rows from `rows_done` on, then `finish`. Left without `finish`
    (an error, ^C) the finished shards stay in ``NAME.emb.partial``, for the next run with these settings.

    Args:
        path: The folder to be, ``NAME.emb``.
        encoder: Name of the encoder; `fingerprint` of its weights; its `pooling` and `dim`.
        dtype: Type of the stored values.
        normalised: Whether the vectors have length 1.
        language: FLORES-200 code.
        source: The text.
        argv: The command line, for the manifest.
        precision: What the encoder computed in.
        clean: Whether the sentences were cleaned; `prefix`: what was put before each.
        part: ``3/10`` where the rows are the third of ten parts of the source.
        rows_per_shard: Rows in the first shards, see `shard_rows`.
        overwrite: Start anew over a finished or unfinished store; a finished one goes when the new one is
            whole.

    Raises:
        MexmaError: Something is there already, another process writes there, the disk is full, or a
            vector does not fit the stored type.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        encoder: str,
        fingerprint: str,
        pooling: str,
        dim: int,
        dtype: StoreType = "float16",
        normalised: bool,
        language: str,
        source: Source,
        argv: Sequence[str],
        precision: str = "float32",
        clean: bool = False,
        prefix: str = "",
        part: str | None = None,
        rows_per_shard: int = ROWS_PER_SHARD,
        overwrite: bool = False,
    ) -> None:
        self.path = Path(path)
        self._part = partial(self.path)
        self._settings = Settings(
            fingerprint=fingerprint,
            pooling=pooling,
            dim=dim,
            dtype=dtype,
            precision=precision,
            normalised=normalised,
            language=language,
            source_checksum=source.checksum,
            clean=clean,
            prefix=prefix,
            part=part,
        )
        self._encoder, self._source, self._argv = encoder, source, tuple(argv)
        self.rows_per_shard, self._overwrite = rows_per_shard, overwrite
        self._shards: list[Shard] = []
        self._open: OpenShard | None = None
        self._stack = ExitStack()

    @property
    def rows_done(self) -> int:
        """Rows written so far; after opening, the rows that an earlier run left finished."""
        return sum(shard.rows for shard in self._shards) + (self._open.rows if self._open else 0)

    def __enter__(self) -> EmbeddingWriter:
        check_replaceable(self.path, self._overwrite)
        with no_space_as_message(self._part):
            self._part.mkdir(parents=True, exist_ok=True)
        self._stack.enter_context(only_writer(self._part))
        try:
            self._take_up()
        except BaseException:
            self._stack.close()
            raise
        return self

    def write(self, vectors: np.ndarray, sentences: Sequence[str] | None, truncated: int = 0) -> None:
        """Append rows.

        Args:
            vectors: float [n, dim].
            sentences: The n sentences, or None in a store of vectors only.
            truncated: How many of them the encoder cut; these rows must lie in one shard.
        """
        assert vectors.ndim == 2 and vectors.shape[1] == self._settings.dim, vectors.shape
        assert sentences is None or len(sentences) == len(vectors), (len(sentences), len(vectors))
        stored = self._as_stored(vectors)
        at = 0
        with no_space_as_message(self._part):
            while at < len(stored):
                if self._open is None:
                    self._open = OpenShard(
                        self._part, len(self._shards), self._settings, sentences is not None
                    )
                full = shard_rows(len(self._shards), self.rows_per_shard)
                step = min(len(stored) - at, full - self._open.rows)
                assert not truncated or step == len(stored), "rows with truncated ones cross a shard's end"
                self._open.write(
                    stored[at : at + step], sentences[at : at + step] if sentences is not None else None
                )
                self._open.truncated += truncated
                at += step
                if self._open.rows == full:
                    self._close_shard()

    def finish(self, truncated: int | None = None, empty: int | None = None) -> EmbeddingStore:
        """Write the manifest and give the folder its name.

        Args:
            truncated: Number of cut sentences, if not told to `write`.
            empty: Number of empty ones, if the store has no sentences to count them in.
        """
        with no_space_as_message(self._part):
            if self._open is not None:
                self._close_shard()
        manifest = EmbeddingManifest(
            encoder=self._encoder,
            rows=self.rows_done,
            shards=tuple(self._shards),
            sources=(self._source,),
            truncated=sum(shard.truncated for shard in self._shards) if truncated is None else truncated,
            empty=sum(shard.empty for shard in self._shards) if empty is None else empty,
            tool_version=__version__,
            argv=self._argv,
            **self._settings.model_dump(exclude={"source_checksum"}),
        )
        write_json_atomic(self._part / MANIFEST, manifest.model_dump(mode="json"))
        (self._part / PROGRESS).unlink(missing_ok=True)
        commit_folder(self._part, self.path)
        return EmbeddingStore.open(self.path)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._open is not None:
            self._open.discard()
            self._open = None
        if self._part.is_dir():  # not finished
            if self._shards:
                log.info(
                    "%s rows are kept in %s; the same command goes on there",
                    f"{self.rows_done:,}",
                    self._part,
                )
            else:
                shutil.rmtree(self._part)
        self._stack.close()

    def _take_up(self) -> None:
        """Go on with what an earlier run left, after checking that it is of the same run."""
        marker = self._part / PROGRESS
        if marker.is_file() and not self._overwrite:
            progress = read_manifest(marker, Progress, FORMAT_VERSION)
            differences = progress.settings.differences(self._settings)
            if progress.rows_per_shard != self.rows_per_shard:
                differences.append(
                    f"rows in a shard: {progress.rows_per_shard} there, {self.rows_per_shard} now"
                )
            if differences:
                raise MexmaError(
                    f"{self._part} is the beginning of another run: {'; '.join(differences)}",
                    "give the settings of that run to go on with it, or --overwrite to start anew",
                )
            for shard in progress.shards:
                check_shard(self._part, shard, self._settings.dtype, self._settings.dim)
            self._shards = list(progress.shards)
        whole = {file.name for shard in self._shards for file in files_of(shard)} | {PROGRESS}
        for stray in self._part.iterdir():
            if stray.name not in whole:  # a shard that was being written when the run was killed
                stray.unlink()
        self._mark()

    def _mark(self) -> None:
        progress = Progress(
            settings=self._settings, rows_per_shard=self.rows_per_shard, shards=tuple(self._shards)
        )
        write_json_atomic(self._part / PROGRESS, progress.model_dump(mode="json"))

    def _close_shard(self) -> None:
        assert self._open is not None
        self._shards.append(self._open.close(self.rows_done - self._open.rows))
        self._open = None
        self._mark()

    def _as_stored(self, vectors: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            stored = np.asarray(vectors).astype(self._settings.dtype)
        good = np.isfinite(stored).all(axis=1)
        if not good.all():
            row = int(np.argmin(good))
            line = self.rows_done + row + 1
            if np.isfinite(vectors[row]).all():
                raise MexmaError(
                    f"the vector of line {line} does not fit float16", "use --store-dtype float32"
                )
            raise MexmaError(f"the vector of line {line} is not a number", "compute in fp32: --dtype fp32")
        return stored


def _no_store(folder: Path) -> MexmaError:
    if (folder / PROGRESS).is_file() or (partial(folder) / PROGRESS).is_file():
        return MexmaError(
            f"{folder}: its making was interrupted, there is no finished store",
            "run the same `mexma embed` again: it goes on where it stopped",
        )
    if not folder.exists():
        return MexmaError(f"{folder}: no such file or folder")
    if not folder.is_dir():
        return MexmaError(
            f"{folder} is a file, not an embedding store", "`mexma embed` makes a store of a text"
        )
    return MexmaError(f"{folder} is no embedding store: it has no {MANIFEST}", "`mexma info` says what it is")
