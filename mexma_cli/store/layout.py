"""The folder of an EmbeddingStore: the manifest's content, and the names and lengths of files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import (
    AfterValidator,
    Field,
    NonNegativeInt,
    PlainSerializer,
    PlainValidator,
    PositiveInt,
    model_validator,
)
from pydantic_core import PydanticCustomError

from mexma_cli.errors import MexmaError
from mexma_cli.files import WORK, Unfinished, check_own, differences, fingerprint, remove
from mexma_cli.settings.stages import StoreType
from mexma_cli.store.arrays import check_is_file, file_size, file_type
from mexma_cli.store.folder import File, FolderManifest, Frozen

FORMAT_VERSION = 2
"""2: several sources, parts of a text, cleaning and prefix. Stores of version 1 are read as they are."""
AGAIN = "embed the text again with --overwrite, or fetch the whole file"
"""The hint for a damaged store."""
NAMES = re.compile(r"vectors-[0-9]{5,}\.npy|lines-[0-9]{5,}\.txt\.zst")
"""A store's files."""
_UNFINISHED = re.compile(NAMES.pattern + rf"|manifest\.json(?:\.partial(?:/{WORK}|/manifest\.json)?)?")
"""Names of the files of a store that is being made."""


class Shard(Frozen):
    """Rows `offset` to `offset + rows`: a vector file, and a sentence file unless there are no sentences."""

    rows: NonNegativeInt
    offset: NonNegativeInt
    vectors: File
    lines: File | None
    truncated: NonNegativeInt
    """Sentences longer than the encoder takes; only their beginning was embedded."""
    empty: NonNegativeInt
    """Sentences of white space only."""
    duplicates: NonNegativeInt = 0
    """Sentences, empty ones aside, whose vector is a copy of an earlier equal sentence's."""


def vectors_name(index: int) -> str:
    return f"vectors-{index:05d}.npy"


def lines_name(index: int) -> str:
    return f"lines-{index:05d}.txt.zst"


def _named_in_order(shards: tuple[Shard, ...]) -> tuple[Shard, ...]:
    """Refuse other names than the writer gives: one may lead out of the folder."""
    for index, shard in enumerate(shards):
        names = (vectors_name(index), lines_name(index))
        for file, name in zip(shard_files(shard), names, strict=False):
            if file.name != name:
                found = {"wrong": repr(file.name), "right": name}
                raise PydanticCustomError("name", "{wrong} is named in place of {right}", found)
    return shards


Shards = Annotated[tuple[Shard, ...], AfterValidator(_named_in_order)]


class Part(NamedTuple):
    """One of the parts that a text, or a list, is divided into: 3/10 is the third of ten."""

    number: int
    """From 1."""
    of: int

    @classmethod
    def read(cls, text: str) -> Part:
        """The part that a text such as 3/10 names; a ValueError says that it names none."""
        found = re.fullmatch(r"([0-9]{1,5})/([0-9]{1,5})", text)
        if found is None or not 1 <= int(found[1]) <= int(found[2]):
            raise ValueError(f"{text!r} is no part; the third of ten is 3/10")
        return cls(int(found[1]), int(found[2]))

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"

    @property
    def label(self) -> str:
        """The part as names of files have it: ``00003-of-00010``."""
        return f"{self.number:05d}-of-{self.of:05d}"

    def rows(self, count: int) -> tuple[int, int]:
        """First row, and the one after the last, of so many; none may be in it."""
        assert 1 <= self.number <= self.of, self
        return (self.number - 1) * count // self.of, self.number * count // self.of


def _part(content: Any) -> Part:
    try:
        return content if isinstance(content, Part) else Part.read(content)
    except (TypeError, ValueError):
        raise PydanticCustomError("part", "should be a part of a text, such as 3/10") from None


PartInFile = Annotated[Part, PlainValidator(_part), PlainSerializer(str)]
"""A part, which a file of JSON has as the text `3/10`."""


class Source(Frozen):
    """The text that was embedded; the checksum is of its uncompressed bytes."""

    path: str
    checksum: str
    lines: NonNegativeInt


class VectorSettings(Frozen):
    """All settings that decide the bytes of the vectors and sentences of a text."""

    fingerprint: str
    """Checksum of the encoder's weights, tokeniser and pooling: stores of different encoders do not mix."""
    pooling: str
    dim: PositiveInt
    dtype: StoreType
    precision: str
    """The precision in which the encoder computed."""
    normalised: bool
    """Whether the vectors have length 1."""
    language: str
    clean: bool = False
    """Whether the sentences were cleaned before they were embedded."""
    prefix: str = ""
    """The prompt that was put before every sentence to embed it."""
    part: PartInFile | None = None


class EmbeddingManifest(VectorSettings, FolderManifest):
    """The content of ``manifest.json``; the rows are those of the sources one after the other."""

    kind: Literal["embeddings"] = "embeddings"
    format_version: int = FORMAT_VERSION
    encoder: str
    rows: NonNegativeInt
    shards: Shards
    sources: tuple[Source, ...]
    truncated: NonNegativeInt
    empty: NonNegativeInt
    tool_version: str
    argv: tuple[str, ...]

    @model_validator(mode="before")
    @classmethod
    def _one_source(cls, content: Any) -> Any:
        """A manifest of version 1 has one `source`."""
        if isinstance(content, dict) and "source" in content and "sources" not in content:
            content = {**content, "sources": [content["source"]]}
            del content["source"]
        return content

    @property
    def duplicates(self) -> int:
        """Sentences whose vector is a copy of an earlier equal sentence's."""
        return sum(shard.duplicates for shard in self.shards)

    @property
    def source(self) -> Source:
        """All sources as one: their names together, a checksum of their checksums, and all their lines."""
        if len(self.sources) == 1:
            return self.sources[0]
        names = [source.path for source in self.sources]
        return Source(
            path=" + ".join(names[:3]) + (f" + {len(names) - 3} more" if len(names) > 3 else ""),
            checksum=fingerprint([source.checksum for source in self.sources]),
            lines=sum(source.lines for source in self.sources),
        )


class EmbeddingSettings(VectorSettings):
    """All that decides the bytes of a store's vectors and sentences."""

    source_checksum: str

    @classmethod
    def of(cls, manifest: EmbeddingManifest) -> EmbeddingSettings:
        """The settings that a finished store was made with."""
        values = {name: getattr(manifest, name) for name in VectorSettings.model_fields}
        return cls(**values, source_checksum=manifest.source.checksum)

    def named(self) -> dict[str, Any]:
        """All settings by their names in messages."""
        return {_WORDS.get(name, name): value for name, value in self.model_dump(mode="json").items()}

    def differences(self, other: EmbeddingSettings, places: tuple[str, str] = ("there", "now")) -> list[str]:
        """The settings that differ, in words; `places` says where each of the two values was found."""
        return list(differences(self.named(), other.named(), places).values())


_WORDS = {
    "fingerprint": "encoder",
    "dtype": "stored type",
    "precision": "computing type",
    "source_checksum": "text",
}


class UnfinishedStore(Unfinished):
    """How far a store is: the `shards` that are whole, first those of the store that is appended to."""

    facts: dict[str, Shards] = Field(default_factory=dict)


def check_shard(folder: Path, shard: Shard, dtype: str, dim: int) -> None:
    """Refuse a shard with a file that is missing, a link, or of another length than its manifest says; the
    message has the rows wanted and found."""
    for file in shard_files(shard):
        path = folder / file.name
        check_is_file(path, AGAIN)
        size = path.stat().st_size
        if file is shard.vectors:
            kind = file_type(dtype, dim)
            header, wanted = file_size(0, *kind), file_size(shard.rows, *kind)
            found = max(0, size - header) // (file_size(1, *kind) - header)
            if size != wanted:
                raise MexmaError(
                    f"{path} is damaged: the manifest says {shard.rows:,} rows, the file has {found:,} "
                    f"({size:,} bytes instead of {wanted:,})",
                    AGAIN,
                )
        elif size != file.bytes:
            raise MexmaError(f"{path} is damaged: {size:,} bytes, the manifest says {file.bytes:,}", AGAIN)


def shard_files(shard: Shard) -> list[File]:
    return [shard.vectors] if shard.lines is None else [shard.vectors, shard.lines]


def part_path(path: Path, part: Part) -> Path:
    """The name of the store of a part of a text: ``NAME.00003-of-00010.emb``."""
    if not path.name:  # . or /
        raise MexmaError(f"{path} is a folder, not the name of a store", "name another output")
    ending = path.suffix if path.suffix == ".emb" else ""
    return path.parent / f"{path.name.removesuffix(ending)}.{part.label}{ending}"


def sweep(part: Path, shards: Sequence[Shard] = ()) -> None:
    """Make the folder of a store that is not finished, or leave in it only the files of some whole shards;
    refused where a file in it is not ours."""
    check_own(part, _UNFINISHED)
    remove(part, but={file.name for shard in shards for file in shard_files(shard)})
    part.mkdir(exist_ok=True)
