"""What is in the folder of an EmbeddingStore: the manifest's content and the names and lengths of files."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from mexma_cli.errors import MexmaError
from mexma_cli.store.manifest import file_size, read_manifest

FORMAT_VERSION = 1
MANIFEST = "manifest.json"
PROGRESS = "progress.json"
StoreType = Literal["float16", "float32"]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class File(_Frozen):
    """A file of a store: its name in the folder, its bytes and their xxh3_128."""

    name: str
    bytes: int
    checksum: str


class Shard(_Frozen):
    """Rows `offset` to `offset + rows`: a vector file, and a sentence file unless there are no sentences."""

    rows: int
    offset: int
    vectors: File
    lines: File | None
    truncated: int
    """Sentences longer than the encoder takes; only their beginning was embedded."""
    empty: int
    """Sentences of white space only."""


class Source(_Frozen):
    """The text that was embedded; the checksum is of its uncompressed bytes."""

    path: str
    checksum: str
    lines: int


class EmbeddingManifest(_Frozen):
    """What ``manifest.json`` says."""

    kind: Literal["embeddings"] = "embeddings"
    format_version: int = FORMAT_VERSION
    encoder: str
    fingerprint: str
    """Of the encoder's weights, tokeniser and pooling: stores of different encoders do not mix."""
    pooling: str
    dim: int
    dtype: StoreType
    precision: str
    """What the encoder computed in."""
    normalised: bool
    """Whether the vectors have length 1."""
    language: str
    rows: int
    shards: tuple[Shard, ...]
    source: Source
    truncated: int
    empty: int
    tool_version: str
    argv: tuple[str, ...]


class Settings(_Frozen):
    """What decides every byte of a store's vectors and sentences; a run with others is another run."""

    fingerprint: str
    pooling: str
    dim: int
    dtype: StoreType
    precision: str
    normalised: bool
    language: str
    source_checksum: str

    @classmethod
    def of(cls, manifest: EmbeddingManifest) -> Settings:
        """The settings that a finished store was made with."""
        values = {name: getattr(manifest, name) for name in cls.model_fields if name != "source_checksum"}
        return cls(**values, source_checksum=manifest.source.checksum)

    def differences(self, other: Settings) -> list[str]:
        """In words, what is not equal: `self` is what is there, `other` what is wanted now."""
        return [
            f"{_WORDS.get(name, name)}: {getattr(self, name)} there, {getattr(other, name)} now"
            for name in type(self).model_fields
            if getattr(self, name) != getattr(other, name)
        ]


class Progress(_Frozen):
    """What ``progress.json`` says: the settings, and the shards that are whole."""

    format_version: int = FORMAT_VERSION
    settings: Settings
    rows_per_shard: int
    shards: tuple[Shard, ...] = ()


_WORDS = {
    "fingerprint": "encoder",
    "dtype": "stored type",
    "precision": "computing type",
    "source_checksum": "text (checksum)",
}


def check_shard(folder: Path, shard: Shard, dtype: str, dim: int) -> None:
    """Compare the lengths of a shard's files with what its manifest says.

    Raises:
        MexmaError: A file is missing, shorter or longer; the message names it, with rows wanted and found.
    """
    for file in files_of(shard):
        path = folder / file.name
        if not path.is_file():
            raise MexmaError(f"{path} is missing: the store is not complete", "embed the text again")
        size = path.stat().st_size
        if file is shard.vectors:
            header = file_size(0, dtype, dim)
            found = max(0, size - header) // (file_size(1, dtype, dim) - header)
            if size != file_size(shard.rows, dtype, dim):
                raise MexmaError(
                    f"{path} is damaged: the manifest says {shard.rows:,} rows, the file has {found:,} "
                    f"({size:,} bytes instead of {file_size(shard.rows, dtype, dim):,})",
                    "embed the text again, or fetch the whole file",
                )
        elif size != file.bytes:
            raise MexmaError(
                f"{path} is damaged: {size:,} bytes, the manifest says {file.bytes:,}", "embed the text again"
            )


def files_of(shard: Shard) -> list[File]:
    return [shard.vectors] if shard.lines is None else [shard.vectors, shard.lines]


def partial(path: Path) -> Path:
    """What a store's folder is called until it is finished."""
    return path.with_name(path.name + ".partial")


def check_replaceable(path: Path, overwrite: bool) -> None:
    """Refuse to write over what is not an embedding store, and over a store unless that is wanted.

    Raises:
        MexmaError: Something is there.
    """
    if not path.exists() and not path.is_symlink():
        return
    if not (path / MANIFEST).is_file():
        raise MexmaError(f"{path} is there and is no embedding store: not overwritten", "name another output")
    if not overwrite:
        raise MexmaError(f"{path} is there already", "--overwrite makes it anew, or name another output")
    read_manifest(path / MANIFEST, EmbeddingManifest, FORMAT_VERSION)
