"""NeighbourStore: a folder ``NAME.knn/`` with the nearest neighbours of two embedding stores, both ways.

It holds ``forward-scores.npy`` and ``forward-ids.npy`` (rows of the source, pointing into the target),
``backward-scores.npy`` and ``backward-ids.npy`` (the other way round) and, written last, ``manifest.json``.
Until it is finished, ``NAME.knn.partial/`` holds the search's journal.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field, NonNegativeInt, PositiveInt

from mexma_cli import __version__, files
from mexma_cli.errors import MexmaError
from mexma_cli.store.arrays import ArrayWriter, check_size, file_size, mapped, read_array_rows
from mexma_cli.store.embeddings import EmbeddingStore
from mexma_cli.store.folder import File, Folder, FolderManifest, Frozen
from mexma_cli.store.layout import shard_files

log = logging.getLogger(__name__)

FORMAT_VERSION = 1
ARRAYS = {
    "forward_scores": "float32",
    "forward_ids": "int64",
    "backward_scores": "float32",
    "backward_ids": "int64",
}
"""Name -> type, in the order of `knn.exact.Neighbours`."""
_NAMES = re.compile("(?:forward|backward)-(?:scores|ids).npy")
_AGAIN = "run `mexma knn` again, with --overwrite"
_ROWS = 1 << 16  # read at a time


class SearchedStore(Frozen):
    """One of the two embedding stores."""

    path: str
    rows: NonNegativeInt
    content: str
    """`content_checksum` of the store."""
    manifest: str
    """xxh3_128 of its ``manifest.json``."""
    encoder: str
    fingerprint: str
    duplicates: int
    """Rows left out because an equal line follows; `empty` of white space only; `unusable` vectors."""
    empty: int
    unusable: int


class NeighbourManifest(FolderManifest):
    """The content of ``manifest.json``."""

    kind: Literal["neighbours"] = "neighbours"
    format_version: int = FORMAT_VERSION
    k: PositiveInt
    """Neighbours a row that were asked for; a side with fewer usable rows gives fewer."""
    forward_k: NonNegativeInt
    backward_k: NonNegativeInt
    """Columns of the arrays."""
    index: str
    """`exact`, or the FAISS factory string of an approximate index."""
    recall: float | None
    """Measured share of the exact neighbours that were found; None where all were."""
    asked: dict[str, Any] = Field(default_factory=dict)
    """The settings that decide what an index finds, as they were given; empty without one."""
    source: SearchedStore
    target: SearchedStore
    files: tuple[File, ...]
    tool_version: str
    argv: tuple[str, ...]


class NeighbourStore(Folder[NeighbourManifest]):
    """A finished store. Make one with `open`."""

    model, version = NeighbourManifest, FORMAT_VERSION
    what, ending, names = "store of neighbours", ".knn", _NAMES
    made_by, again = "`mexma knn` makes one", _AGAIN

    @classmethod
    def checksums(cls, manifest: NeighbourManifest) -> dict[str, str]:
        return {file.name: file.checksum for file in manifest.files}

    def check_sizes(self) -> None:
        if self.checksums(self.manifest).keys() != {_file(name) for name in ARRAYS}:
            raise MexmaError(
                f"{self.path / files.MANIFEST} is damaged: it names other files than a store has"
            )
        for name, dtype in ARRAYS.items():
            rows, k = self._shape(name)
            check_size(self.path / _file(name), file_size(rows, dtype, k), _AGAIN)
            mapped(self.path / _file(name), (rows, k), dtype, _AGAIN)

    def check_made_of(self, source: EmbeddingStore, target: EmbeddingStore) -> None:
        """Refuse neighbours of other stores than these two; the message names the one that is another."""
        for side, store in self._others(source, target):
            raise MexmaError(
                f"{self.path} holds neighbours of {side.path} ({side.rows:,} rows), and {store.path} "
                f"({store.rows:,} rows) is another store, or was made anew since",
                _AGAIN,
            )

    def differences(
        self, source: EmbeddingStore, target: EmbeddingStore, settings: dict[str, Any]
    ) -> list[str]:
        """Say how these neighbours differ from those that a search would find now, by its settings:
        `k`, `index`, and with one what else is in `asked` of the manifest."""
        there = {"k": self.manifest.k, "index": self.manifest.index} | self.manifest.asked
        if there["index"] != settings["index"]:
            there, settings = ({name: one[name] for name in ("k", "index")} for one in (there, settings))
        found = list(files.differences(there, settings).values())
        for side, store in self._others(source, target):
            anew = side.path == str(store.path)
            found.append(f"{side.path} was made anew" if anew else f"of {side.path} there, {store.path} now")
        return found

    def _others(self, *stores: EmbeddingStore) -> list[tuple[SearchedStore, EmbeddingStore]]:
        """The sides that were made of another store than the one given, with that one."""
        sides = zip((self.manifest.source, self.manifest.target), stores, strict=True)
        return [(side, store) for side, store in sides if side.content != content_checksum(store)]

    def read(self, k: int) -> tuple[np.ndarray, ...]:
        """The k nearest, best first, in the order of `ARRAYS`; refused where a file is not what was written.

        Returns:
            float32 and int64 [source rows, k] and [target rows, k], with fewer columns where fewer were kept.
                Rows left out have ids of -1 and scores of -inf.
        """
        self.verify()
        with self.reading():
            return tuple(self._columns(name, dtype, k) for name, dtype in ARRAYS.items())

    def _columns(self, name: str, dtype: str, k: int) -> np.ndarray:
        """Read, not mapped: a mapped file that is cut short ends the process."""
        rows, width = self._shape(name)
        found = np.empty((rows, min(k, width)), dtype)
        for first in range(0, rows, _ROWS):
            last = min(first + _ROWS, rows)
            found[first:last] = read_array_rows(self.path / _file(name), dtype, width, (first, last), _AGAIN)[
                :, :k
            ]
        if name.endswith("_ids"):
            others = (self.manifest.target if name.startswith("forward") else self.manifest.source).rows
            if ((found < -1) | (found >= others)).any():
                raise MexmaError(
                    f"{self.path / _file(name)} is damaged: not all are rows of {others:,}", _AGAIN
                )
        return found

    def _shape(self, name: str) -> tuple[int, int]:
        if name.startswith("forward"):
            return self.manifest.source.rows, self.manifest.forward_k
        return self.manifest.target.rows, self.manifest.backward_k


@contextmanager
def searching(path: Path, overwrite: bool = False) -> Iterator[None]:
    """Hold the workplace of a path, ``NAME.knn``, where `write` puts neighbours.

    `overwrite` starts anew over a finished or unfinished store; a finished one goes when the new one is
    whole. Refused: something that is there already, another process that writes there, and a full disk.
    """
    NeighbourStore.check_replaceable(path, overwrite)
    files.check_parent(path)
    with files.workplace(path):
        if overwrite:
            files.remove(files.workplace_path(path), but=(files.MARK,))
        yield


def write(
    final: Path, arrays: Mapping[str, np.ndarray], source: SearchedStore, target: SearchedStore, **facts: Any
) -> NeighbourStore:
    """Write arrays, [rows, k] by the names of `ARRAYS`, and manifest while `searching`, and give the folder
    its name; `facts` are `k`, `index`, `recall` and `argv` of the manifest."""
    assert set(arrays) == set(ARRAYS), sorted(arrays)
    assert len(arrays["forward_ids"]) == source.rows and len(arrays["backward_ids"]) == target.rows
    written, folder = [], files.in_work(final)
    with files.no_space_as_message(files.workplace_path(final)):
        if folder.exists():
            files.remove(folder)
        folder.mkdir()
        for name, dtype in ARRAYS.items():
            path, values = folder / _file(name), arrays[name]
            with path.open("wb") as file:
                array = ArrayWriter(file, dtype, values.shape[1])
                array.write(values)
                array.close()
                files.fsync_file(file)
            written.append(File.of(path))
    manifest = NeighbourManifest(
        forward_k=arrays["forward_ids"].shape[1],
        backward_k=arrays["backward_ids"].shape[1],
        source=source,
        target=target,
        files=tuple(written),
        tool_version=__version__,
        **facts,
    )
    return NeighbourStore.finish(final, manifest)


def searched_store(store: EmbeddingStore, *, duplicates: int, empty: int, unusable: int) -> SearchedStore:
    """The facts by which an embedding store is recognised later."""
    return SearchedStore(
        path=store.label,
        rows=store.rows,
        content=content_checksum(store),
        manifest=files.checksum_file(store.path / files.MANIFEST),
        encoder=store.manifest.encoder,
        fingerprint=store.manifest.fingerprint,
        duplicates=duplicates,
        empty=empty,
        unusable=unusable,
    )


def content_checksum(store: EmbeddingStore) -> str:
    """A checksum of the encoder, vectors and sentences, whatever the store's path and command line were."""
    checksums = [[file.checksum for file in shard_files(shard)] for shard in store.manifest.shards]
    return files.fingerprint([store.manifest.fingerprint, checksums])


def _file(name: str) -> str:
    return name.replace("_", "-") + ".npy"
