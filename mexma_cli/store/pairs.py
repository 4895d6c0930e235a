"""TokenisedPairs: the token ids of a corpus in one language pair, on disk, a pair by one integer.

One folder holds ``source.ids.npy`` and ``target.ids.npy`` (all ids one after the other, without <s> and
</s>), ``source.offsets.npy`` and ``target.offsets.npy`` (int64 [pairs + 1]) and, written last,
``manifest.json``. What some trainings need beside the pairs lies there in the same way: ``negatives``, up to
N sentences a pair, and ``teacher``.
"""

from __future__ import annotations

import os
import re
import weakref
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, Literal, get_args

import numpy as np
from pydantic import Field, NonNegativeInt, PositiveInt

from mexma_cli import __version__, files
from mexma_cli.errors import MexmaError
from mexma_cli.store.arrays import ArrayWriter, check_size, cut_short, file_size, read_array_rows
from mexma_cli.store.folder import Folder, FolderManifest, Frozen

FORMAT_VERSION = 1
Side = Literal["source", "target"]
SIDES: tuple[Side, ...] = ("source", "target")
ExtraColumn = Literal["negatives", "teacher"]
"""The extra columns that a pair may have: hard negatives, which look like the target and are no translation;
and the target in the tokens of a teacher with another tokeniser."""
_NAMES = re.compile(rf"(?:{'|'.join((*SIDES, *get_args(ExtraColumn)))})\.(?:ids|offsets)\.npy")
_OFFSET = "int64"
_BLOCK = 1 << 20
_AGAIN = "delete it, and run `mexma prepare` again"


class ExtraSentences(Frozen):
    """Sentences that belong to the pairs."""

    each: PositiveInt = 1
    """Sentences of a pair; a pair that has fewer has empty ones behind them."""
    tokens: NonNegativeInt = 0
    """Ids in all."""
    vocabulary: PositiveInt
    """Ids are below it."""

    @property
    def dtype(self) -> Literal["uint16", "uint32"]:
        """Type of the ids."""
        return "uint16" if self.vocabulary <= 1 << 16 else "uint32"


class TokenisedPairsManifest(FolderManifest):
    """The content of ``manifest.json``."""

    kind: Literal["bitext"] = "bitext"
    format_version: int = FORMAT_VERSION
    name: str
    """Name of the corpus in the recipe."""
    source_language: str
    target_language: str
    pairs: NonNegativeInt
    tokens: dict[Side, NonNegativeInt]
    """Ids on each side."""
    dtype: Literal["uint16", "uint32"]
    vocabulary: PositiveInt
    beside: dict[ExtraColumn, ExtraSentences] = Field(default_factory=dict)
    """The extra columns that there are."""
    tokenizer_fingerprint: str
    max_tokens: PositiveInt
    """Longest sentence with <s> and </s>."""
    read: NonNegativeInt
    """Pairs in the files."""
    kept: NonNegativeInt
    dropped: dict[str, NonNegativeInt]
    """Reason -> pairs."""
    truncated: NonNegativeInt
    """Sentences cut to `max_tokens`."""
    negatives: dict[str, NonNegativeInt] = Field(default_factory=dict)
    """Hard negatives: `kept`, and `alike`, left out because their tokens are their target's."""
    settings: dict[str, Any]
    """All that decides the content: files with their checksums, filters, cap, tokeniser."""
    checksums: dict[str, str]
    """File -> xxh3_128."""
    tool_version: str


class TokenisedPairs(Folder[TokenisedPairsManifest]):
    """A finished store. Make one with `open`; ``len(store)`` is its number of pairs."""

    model, version = TokenisedPairsManifest, FORMAT_VERSION
    what, ending, names = "store of prepared pairs", "", _NAMES
    made_by, again = "`mexma prepare` makes one", _AGAIN

    def __init__(self, path: Path, manifest: TokenisedPairsManifest) -> None:
        super().__init__(path, manifest)
        self._columns: dict[str, ExtraSentences] = {
            side: ExtraSentences(tokens=tokens, vocabulary=manifest.vocabulary)
            for side, tokens in manifest.tokens.items()
        }
        self._columns.update((str(name), column) for name, column in manifest.beside.items())
        self._files: dict[str, int] = {}

    @classmethod
    def checksums(cls, manifest: TokenisedPairsManifest) -> dict[str, str]:
        return manifest.checksums

    def __len__(self) -> int:
        return self.manifest.pairs

    def pair(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        """Ids of source and target sentence `index`, without special tokens. They are read, not mapped: a
        mapped file that is cut short ends the process, and this one is refused."""
        assert 0 <= index < len(self), (index, len(self))
        if not self._files:
            self._open()
        return self._sentence("source", index), self._sentence("target", index)

    def extra(self, column: ExtraColumn, index: int) -> list[np.ndarray]:
        """The sentences of pair `index` in an extra column, as `pair` gives its own.

        As many for each pair, empty ones where it has fewer; none if the store has no such column.
        """
        if column not in self._columns:
            return []
        if not self._files:
            self._open()
        each = self._columns[column].each
        return [self._sentence(column, place) for place in range(each * index, each * (index + 1))]

    def verify(self) -> None:
        """Read all files and compare their checksums, sentences' lengths and ids with the manifest; the file
        that is damaged is named."""
        super().verify()
        again = self.again
        for name, column in self._columns.items():
            names = self.path / f"{name}.offsets.npy", self.path / f"{name}.ids.npy"
            last = 0
            for ends in self._values(f"{name}.offsets", column.each * len(self) + 1, _OFFSET):
                lengths = np.diff(ends, prepend=last)
                if lengths.min() < 0 or lengths.max() > self.manifest.max_tokens:
                    raise MexmaError(f"{names[0]} is damaged: an offset is out of range", again)
                last = int(ends[-1])
            if last != column.tokens:
                raise MexmaError(f"{names[0]} is damaged: it ends at another id than the last", again)
            for ids in self._values(f"{name}.ids", last, column.dtype):
                if ids.max() >= column.vocabulary:
                    raise MexmaError(f"{names[1]} is damaged: an id is out of range", again)

    def _values(self, name: str, length: int, dtype: str) -> Iterator[np.ndarray]:
        for start in range(0, length, _BLOCK):
            rows = start, min(start + _BLOCK, length)
            yield read_array_rows(self.path / f"{name}.npy", dtype, 1, rows, _AGAIN)[:, 0]

    def _contents(self) -> Iterator[tuple[str, int, str]]:
        """Name, length and type of every array."""
        for name, column in self._columns.items():
            yield f"{name}.ids", column.tokens, column.dtype
            yield f"{name}.offsets", column.each * len(self) + 1, _OFFSET

    def check_sizes(self) -> None:
        named = {f"{name}.npy" for name, _, _ in self._contents()}
        if set(self.manifest.tokens) != {*SIDES} or set(self.manifest.checksums) != named:
            raise MexmaError(
                f"{self.path / files.MANIFEST} is damaged: it names other files than a store has", _AGAIN
            )
        for name, length, dtype in self._contents():
            check_size(self.path / f"{name}.npy", file_size(length, dtype), _AGAIN)

    def _open(self) -> None:
        opened = {}
        for name, _, _ in self._contents():
            opened[name] = os.open(self.path / f"{name}.npy", os.O_RDONLY)
            weakref.finalize(self, os.close, opened[name])
        self._files = opened

    def _sentence(self, column: str, index: int) -> np.ndarray:
        start, stop = self._read(f"{column}.offsets", index, index + 2, _OFFSET).tolist()
        return self._read(f"{column}.ids", start, stop, self._columns[column].dtype)

    def _read(self, name: str, start: int, stop: int, dtype: str) -> np.ndarray:
        first, last = file_size(start, dtype), file_size(stop, dtype)
        found = os.pread(self._files[name], last - first, first)
        if len(found) != last - first:
            raise cut_short(self.path / f"{name}.npy", _AGAIN)
        return np.frombuffer(found, dtype)


class TokenisedPairsWriter:
    """Writes a store pair by pair in constant memory; the folder gets its name when it is whole, in place of
    a store that is there. Refused: anything else that is there, and a full disk.

    Args:
        vocabulary: Size of the tokeniser's vocabulary: decides between uint16 and uint32.
        extra: The extra columns that are written with the sides.
    """

    def __init__(
        self, path: str | Path, vocabulary: int, extra: Mapping[ExtraColumn, ExtraSentences] | None = None
    ) -> None:
        self.path = Path(path)
        if not (self.path.is_dir() and not any(self.path.iterdir())):
            TokenisedPairs.check_replaceable(self.path, overwrite=True)
            if self.path.exists() and not (self.path / files.MANIFEST).exists():  # whose files are they?
                raise MexmaError(f"{self.path} has files, and no {files.MANIFEST}", "move it away")
        self._unfinished = files.in_work(self.path)
        self._extra = dict(extra or {})
        self._side = ExtraSentences(vocabulary=vocabulary)
        self._columns = {str(name): column for name, column in self._extra.items()}
        self._columns |= dict.fromkeys(SIDES, self._side)
        self._stack, self._work = ExitStack(), ExitStack()
        self._files: dict[str, IO[bytes]] = {}
        self._ids: dict[str, ArrayWriter] = {}
        self._offsets: dict[str, ArrayWriter] = {}
        self._tokens = dict.fromkeys(self._columns, 0)
        self.pairs = 0

    def __enter__(self) -> TokenisedPairsWriter:
        files.make_folder(self.path.parent)
        with ExitStack() as work, files.no_space_as_message(self._unfinished):
            work.enter_context(files.workplace(self.path))
            self._unfinished.mkdir()
            for name, column in self._columns.items():
                self._ids[name] = self._array(f"{name}.ids.npy", column.dtype)
                self._offsets[name] = self._array(f"{name}.offsets.npy", _OFFSET)
                self._offsets[name].write(np.zeros(1, dtype=_OFFSET))
            self._work = work.pop_all()
        return self

    def _array(self, name: str, dtype: str) -> ArrayWriter:
        self._files[name] = self._stack.enter_context((self._unfinished / name).open("wb"))
        return ArrayWriter(self._files[name], dtype)

    def write(
        self,
        source: list[list[int]],
        target: list[list[int]],
        extra: Mapping[ExtraColumn, list[list[list[int]]]] | None = None,
    ) -> None:
        """Append pairs: the ids of as many source as target sentences, and by extra column the
        sentences of each pair, `each` or fewer."""
        assert len(source) == len(target), (len(source), len(target))
        if not source:
            return
        written: dict[str, list[list[int]]] = {"source": source, "target": target}
        for column, of_pairs in (extra or {}).items():
            each = self._extra[column].each
            assert len(of_pairs) == len(source) and max(map(len, of_pairs)) <= each, column
            written[column] = [ids for own in of_pairs for ids in (own + [[]] * each)[:each]]
        assert written.keys() == self._columns.keys(), sorted(written)
        with files.no_space_as_message(self._unfinished):
            for name, sentences in written.items():
                ends = self._tokens[name] + np.cumsum([len(ids) for ids in sentences], dtype=np.int64)
                flat = np.fromiter((token for ids in sentences for token in ids), dtype=np.int64)
                assert not len(flat) or (flat.min() >= 0 and flat.max() < self._columns[name].vocabulary), (
                    "ids out of range"
                )
                self._ids[name].write(flat)
                self._offsets[name].write(ends)
                self._tokens[name] = int(ends[-1])
        self.pairs += len(source)

    def finish(self, facts: Mapping[str, Any]) -> TokenisedPairs:
        """Write the manifest, with the fields that the writer does not count itself, and give the folder its
        name."""
        with files.no_space_as_message(self._unfinished):
            for array in (*self._ids.values(), *self._offsets.values()):
                array.close()
            for file in self._files.values():
                files.fsync_file(file)
            self._stack.close()
        manifest = TokenisedPairsManifest(
            pairs=self.pairs,
            kept=self.pairs,
            tokens={side: self._tokens[side] for side in SIDES},
            dtype=self._side.dtype,
            vocabulary=self._side.vocabulary,
            beside={
                name: column.model_copy(update={"tokens": self._tokens[name]})
                for name, column in self._extra.items()
            },
            checksums={name: files.checksum_file(self._unfinished / name) for name in self._files},
            tool_version=__version__,
            **facts,
        )
        return TokenisedPairs.finish(self.path, manifest)

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            self._stack.close()
        except OSError:  # buffered bytes have no place on a full disk, and are thrown away here
            if error is None:
                raise
        finally:
            self._work.close()
