"""Writing an EmbeddingStore."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import chain, islice
from pathlib import Path

import numpy as np

from mexma_cli import __version__, files
from mexma_cli.errors import MexmaError
from mexma_cli.store.arrays import as_stored, check_content, fits
from mexma_cli.store.embeddings import EmbeddingStore
from mexma_cli.store.layout import (
    AGAIN,
    EmbeddingManifest,
    EmbeddingSettings,
    Shard,
    Source,
    UnfinishedStore,
    check_shard,
    shard_files,
    sweep,
)
from mexma_cli.store.shard import OpenShard, read_shard_lines, read_shard_rows, take_over

log = logging.getLogger(__name__)

_BASE = "store appended to"
"""In the settings of a run: xxh3_128 of that store's manifest; None without one."""


def made_already(path: Path, settings: EmbeddingSettings) -> EmbeddingStore | None:
    """The store at a path, checked, if it was made with these settings; None if no finished store is there.
    One of other settings is refused."""
    if not (path / files.MANIFEST).is_file():
        return None
    store = EmbeddingStore.open(path)
    if differences := EmbeddingSettings.of(store.manifest).differences(settings):
        raise MexmaError(
            f"{path} is there already, of another run: {'; '.join(differences)}",
            "name another output with -o, or --overwrite to make it anew",
        )
    store.verify()
    files.clear(path)
    log.info("%s is there already, of the same text and settings: nothing to do", path)
    return store


class EmbeddingWriter:
    """Makes a store, shard by shard; opened again with the same settings it goes on after the last shard.

    Use as a context manager: `write` the rows from `rows_done` on, then `finish`. Left without `finish` (an
    error, ^C) the finished shards stay in ``NAME.emb.partial``, for the next run with these settings.
    Refused: something that is there already, another process that writes there, a store to append to with
    other settings, a full disk, a vector that does not fit the stored type.

    Args:
        path: The folder to be, ``NAME.emb``.
        settings: All that decides the bytes of the store; `source_checksum` is that of `source`, the text.
        encoder: Its name.
        argv: The command line, for the manifest.
        overwrite: Start anew over a finished or unfinished store; a finished one goes when the new one is
            whole.
        append: Make the store that is there longer by these rows, or a new one if none is there. It stays as
            it is, and readable, until the longer one takes its place; its shards are not rewritten.
        by: The command that goes on if it is killed.
    """

    rows_per_shard = 1 << 13
    """Rows in each of the first 16 shards; the next 64 have 8 times as many, all others 64 times: little is
    lost when a short or slow run is killed, and a billion rows are 2000 files."""

    def __init__(
        self,
        path: str | Path,
        settings: EmbeddingSettings,
        source: Source,
        *,
        encoder: str,
        argv: Sequence[str] = (),
        overwrite: bool = False,
        append: bool = False,
        by: str = "embed",
    ) -> None:
        assert not (overwrite and append), "a store is made anew or made longer"
        assert settings.source_checksum == source.checksum
        self.path = Path(path)
        self._work, self._folder = files.workplace_path(self.path), files.in_work(self.path)
        self._progress = self._work / files.PROGRESS
        self._settings, self._by = settings, by
        self._encoder, self._source, self._argv = encoder, source, tuple(argv)
        self._overwrite, self._append = overwrite, append
        self.rows_before = 0
        """Rows of the store that is appended to."""
        self._base: EmbeddingStore | None = None
        self._base_checksum: str | None = None
        self._shards: list[Shard] = []
        self._open: OpenShard | None = None
        self._finished = False
        self._stack = ExitStack()

    @property
    def rows_done(self) -> int:
        """Rows of this source that are written; at first those in the whole shards of an earlier run."""
        return self._rows - self.rows_before

    @property
    def _rows(self) -> int:
        return sum(shard.rows for shard in self._shards) + (self._open.rows if self._open else 0)

    @property
    def _kept(self) -> int:
        """Shards of the store that is appended to."""
        return len(self._base.manifest.shards) if self._base is not None else 0

    def __enter__(self) -> EmbeddingWriter:
        self._check_place()
        files.check_parent(self.path)
        with ExitStack() as stack, files.no_space_as_message(self._work):
            stack.enter_context(files.workplace(self.path))
            self._check_place()  # another process may have finished there meanwhile
            if self._progress.is_file() and not self._overwrite:
                self._go_on()
            else:
                self._begin()
            if not self._finished:
                self._mark()
            self._stack = stack.pop_all()
        return self

    def go_on(
        self, lines: Iterator[str], on_kept: Callable[[int, list[str]], object] = lambda row, lines: None
    ) -> Iterator[str]:
        """The lines of the source that are not written yet, from all of them; `on_kept` is called with the
        first row and the lines of each shard that stays.

        What an earlier run wrote is compared with the source, as that run may have read another text under
        its name: from the first shard with another line on, all is written anew.
        """
        if self._finished:
            return islice(lines, self.rows_done, None)
        row = 0
        for place, shard in enumerate(self._shards[self._kept :], self._kept):
            own = list(islice(lines, shard.rows))
            if own != list(read_shard_lines(self._folder, shard)):
                log.warning(
                    "%s was begun when %s had other lines: it is made anew from row %s on",
                    self._work,
                    self._source.path,
                    f"{row + 1:,}",
                )
                del self._shards[place:]
                self._mark()
                sweep(self._folder, self._shards)
                return chain(own, lines)
            on_kept(row, own)
            row += shard.rows
        return lines

    def write(
        self, vectors: np.ndarray, sentences: Sequence[str] | None, truncated: int = 0, duplicates: int = 0
    ) -> None:
        """Append rows, all of which lie in one shard where some are counted.

        Args:
            vectors: float [n, dim].
            sentences: The n sentences, or None in a store of vectors only.
            truncated: How many of them the encoder cut.
            duplicates: How many of the vectors are copies of an earlier equal sentence's.
        """
        assert vectors.ndim == 2 and vectors.shape[1] == self._settings.dim, vectors.shape
        assert sentences is None or len(sentences) == len(vectors), (len(sentences), len(vectors))
        assert not self._finished
        stored = self._as_stored(vectors)
        at = 0
        with files.no_space_as_message(self._work):
            while at < len(stored):
                if self._open is None:
                    self._open = OpenShard(
                        self._folder, len(self._shards), self._settings, sentences is not None
                    )
                index = len(self._shards)
                full = self.rows_per_shard * (1 if index < 16 else 8 if index < 80 else 64)
                step = min(len(stored) - at, full - self._open.rows)
                counted = truncated or duplicates
                assert not counted or step == len(stored), "rows that are counted cross a shard's end"
                self._open.write(
                    stored[at : at + step], sentences[at : at + step] if sentences is not None else None
                )
                self._open.truncated += truncated
                self._open.duplicates += duplicates
                at += step
                if self._open.rows == full:
                    self._close_shard()

    def stored(self, rows: np.ndarray) -> np.ndarray:
        """Vectors of some rows of this source, int64 [n], that were written before, float32 [n, dim]: written
        again, they are stored as they are."""
        assert not len(rows) or 0 <= rows.min() <= rows.max() < self.rows_done, self.rows_done
        folder = self.path if self._finished else self._folder
        parts = [(shard.offset, folder / shard.vectors.name) for shard in self._shards]
        if self._open:
            with files.no_space_as_message(self._work):
                parts.append((self._rows - self._open.rows, self._open.so_far()))
        return read_shard_rows(parts, rows + self.rows_before, self._settings)

    def finish(self, truncated: int | None = None, empty: int | None = None) -> EmbeddingStore:
        """Write the manifest and give the folder its name; `truncated` and `empty` are counts of the source's
        sentences, if they were not told to `write`, or there are no sentences to count."""
        if not self._finished:
            with files.no_space_as_message(self._work):
                if self._open is not None:
                    self._close_shard()
            self._check_place()
            EmbeddingStore.finish(self.path, self._manifest(truncated, empty))
            self._finished = True
        if self._append:
            log.info("%s had %s rows, and has %s now", self.path, f"{self.rows_before:,}", f"{self._rows:,}")
        return EmbeddingStore.open(self.path)

    def __exit__(self, *_: object) -> None:
        if self._open is not None:
            self._open.discard()
            self._open = None
        if not self._finished and len(self._shards) > self._kept:
            kept = "%s rows are kept in %s; the same command goes on there"
            log.info(kept, f"{self.rows_done:,}", self._work)
        else:
            # The folder first: what is in progress tells the next run that this one was at its end.
            files.remove(self._folder)
            files.remove(self._progress)
        self._stack.close()

    def _manifest(self, truncated: int | None, empty: int | None) -> EmbeddingManifest:
        new, base = self._shards[self._kept :], self._base.manifest if self._base is not None else None
        truncated = sum(shard.truncated for shard in new) if truncated is None else truncated
        empty = sum(shard.empty for shard in new) if empty is None else empty
        return EmbeddingManifest(
            encoder=self._encoder,
            rows=self._rows,
            shards=tuple(self._shards),
            sources=(*(base.sources if base else ()), self._source),
            truncated=truncated + (base.truncated if base else 0),
            empty=empty + (base.empty if base else 0),
            tool_version=__version__,
            argv=self._argv,
            **self._settings.model_dump(exclude={"source_checksum"}),
        )

    def _check_place(self) -> None:
        if not self._append:
            EmbeddingStore.check_replaceable(self.path, self._overwrite)
            return
        EmbeddingStore.check_replaceable(self.path, overwrite=True)  # a store, or nothing
        if not self.path.exists():
            return
        self._base = EmbeddingStore.open(self.path)
        self._base_checksum = files.checksum_file(self.path / files.MANIFEST)
        there = EmbeddingSettings.of(self._base.manifest)
        there = there.model_copy(update={"source_checksum": self._settings.source_checksum})
        if differences := there.differences(self._settings):
            raise MexmaError(
                f"{self.path} was made in another way: {'; '.join(differences)}",
                "append with the settings of that store, or name another output with -o",
            )
        if not self._base.has_sentences:
            raise MexmaError(f"{self.path} holds vectors without their sentences: a text cannot be appended")

    def _go_on(self) -> None:
        """Take over the shards that an earlier run left, after checking that it had the same settings."""
        left = files.Unfinished.read(self._work)
        differing = left.differences(self._now())
        if "shards" not in left.facts:  # of a command that makes no store
            raise files.another_run(self._work, differing)
        shards = UnfinishedStore.read(self._work).facts["shards"]
        if self._base is not None and _BASE in differing and self._base.manifest.shards == shards:
            # That run was killed when its folder had its name.
            if len(differing) > 1:
                self._begin()
                return
            self._finished, self._shards = True, list(shards)
            self.rows_before = sum(source.lines for source in self._base.manifest.sources[:-1])
            return
        if not self._folder.is_dir():  # that run was killed when its folder had its name, and that is gone
            self._begin()
            return
        if differing:
            raise files.another_run(self._work, differing)
        for shard in shards:
            check_shard(self._folder, shard, self._settings.dtype, self._settings.dim)
            for file in shard_files(shard):
                check_content(self._folder / file.name, file.checksum, AGAIN)
        self._shards = list(shards)
        self.rows_before = self._base.rows if self._base is not None else 0
        sweep(self._folder, self._shards)

    def _begin(self) -> None:
        sweep(self._folder, self._shards)
        if (base := self._base) is not None:
            for shard in base.manifest.shards:
                for file in shard_files(shard):
                    base.check_file(file.name, file.checksum)
                place = len(self._shards)
                self._shards.append(take_over(shard, base.path, self._folder, place, shard.offset))
            self.rows_before = base.rows

    def _now(self) -> UnfinishedStore:
        """The entry of this run: its command, and the settings that it embeds with."""
        return UnfinishedStore(by=self._by, of=self._settings.named() | {_BASE: self._base_checksum})

    def _mark(self) -> None:
        files.fsync_folder(self._folder)
        self._now().enter(self._work, shards=tuple(self._shards))

    def _close_shard(self) -> None:
        assert self._open is not None
        self._shards.append(self._open.close(self._rows - self._open.rows))
        self._open = None
        self._mark()

    def _as_stored(self, vectors: np.ndarray) -> np.ndarray:
        stored = as_stored(vectors, self._settings.dtype)
        good = fits(vectors, stored)
        if not good.all():
            row, part = int(np.argmin(good)), self._settings.part
            first = 0 if part is None else part.rows(self._source.lines)[0]
            line = first + self.rows_done + row + 1
            if np.isfinite(vectors[row]).all():
                raise MexmaError(
                    f"the vector of line {line} does not fit {self._settings.dtype}",
                    "use --store-dtype float32",
                )
            raise MexmaError(f"the vector of line {line} is not a number", "compute in fp32: --dtype fp32")
        return stored
