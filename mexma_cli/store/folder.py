"""A folder on disk that is whole or not there: its manifest, written last, has the checksums of its files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import ClassVar, Generic, Self, TypeVar

from pydantic import BaseModel, ConfigDict, NonNegativeInt

from mexma_cli import files
from mexma_cli.errors import MexmaError
from mexma_cli.formats.bitext import how_pairs_convert
from mexma_cli.store.arrays import check_content
from mexma_cli.text.lines import OTHER_FORMATS


class Frozen(BaseModel):
    """The content of a file of JSON; unknown keys are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class File(Frozen):
    """A file in a folder: its name, its bytes and their xxh3_128."""

    name: str
    bytes: NonNegativeInt
    checksum: str

    @classmethod
    def of(cls, path: Path) -> File:
        """Describe a file that is on the disk."""
        return cls(name=path.name, bytes=path.stat().st_size, checksum=files.checksum_file(path))


class FolderManifest(Frozen):
    """The content of ``manifest.json``, which says what kind of folder it is in."""

    kind: str


Manifest = TypeVar("Manifest", bound=FolderManifest)


class Folder(Generic[Manifest]):
    """A finished folder. Make one with `open`.

    Attributes:
        path: Its path.
        manifest: Where its content comes from.
        label: Its name in messages: the path, or that of the text of a temporary one.
    """

    model: ClassVar[type[FolderManifest]]
    version: ClassVar[int]
    """The format version of manifests that are written; earlier ones are read."""
    what: ClassVar[str]
    """The kind of folder, in messages."""
    ending: ClassVar[str]
    names: ClassVar[re.Pattern[str]]
    """All names that files in such folders can have."""
    made_by: ClassVar[str]
    """The hint where there is none."""
    again: ClassVar[str]
    """The hint for one that is damaged."""

    def __init__(self, path: Path, manifest: Manifest) -> None:
        self.path, self.manifest, self.label = path, manifest, str(path)

    @classmethod
    def open(cls, path: str | Path, verify: bool = False) -> Self:
        """Open a folder and check that all its files are there in full length.

        Args:
            verify: Also read everything and compare the checksums.

        Raises:
            MexmaError: There is none, it is not finished, or a file is missing, a link, short or damaged.
        """
        folder = Path(path)
        found = cls(folder, cls.manifest_of(folder))
        found.check_sizes()
        if verify:
            found.verify()
        return found

    @classmethod
    def manifest_of(cls, folder: Path) -> Manifest:
        """Read the manifest alone; refused where there is none, or it is damaged, or of another kind."""
        if not (folder / files.MANIFEST).is_file():
            raise cls._missing(folder)
        if isinstance(kind := _kind(folder), str) and kind != cls._own_kind():
            raise MexmaError(f"{folder} is no {cls.what}", cls.made_by)
        hint = cls.again if cls.has_files(folder) else None
        manifest: Manifest = files.read_manifest(folder / files.MANIFEST, cls.model, cls.version, hint)  # pyrefly: ignore[bad-assignment]
        return manifest

    @classmethod
    def _missing(cls, folder: Path) -> MexmaError:
        if any((place / files.PROGRESS).is_file() for place in (folder, files.workplace_path(folder))):
            return MexmaError(
                f"{folder}: its making was interrupted, there is no finished {cls.what}",
                "run the same command again: it goes on where it stopped",
            )
        if not folder.exists():
            return MexmaError(f"{folder}: no such file or folder", cls.made_by)
        if not folder.is_dir():
            return MexmaError(
                f"{folder} is a file and no {cls.what}", how_pairs_convert(folder) or cls.made_by
            )
        if cls.has_files(folder):
            return MexmaError(f"{folder} is damaged: it has no {files.MANIFEST}", cls.again)
        return MexmaError(f"{folder} is no {cls.what}: it has no {files.MANIFEST}", cls.made_by)

    @classmethod
    def checksums(cls, manifest: Manifest) -> Mapping[str, str]:
        """The names of all files in the folder, and their xxh3_128."""
        raise NotImplementedError

    def check_sizes(self) -> None:
        """Compare the lengths of all files with what the manifest says; one that is missing, a link, shorter
        or longer is refused."""
        raise NotImplementedError

    def verify(self) -> None:
        """Read all files and compare their checksums with the manifest's.

        Raises:
            MexmaError: A file is not what was written; the message names it.
        """
        self.check_sizes()
        for name, checksum in self.checksums(self.manifest).items():
            self.check_file(name, checksum)

    def check_file(self, name: str, checksum: str) -> None:
        """Compare one of the files with its checksum in the manifest; refused as damaged, or since the folder
        was made anew after it was opened."""
        with self.reading():
            check_content(self.path / name, checksum, self.again)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Around reading files: one that is not as it was is no damage where the folder was made anew since,
        and what is raised then is `check_unchanged`'s."""
        try:
            yield
        except (MexmaError, FileNotFoundError):
            self.check_unchanged()
            raise

    def check_unchanged(self) -> None:
        """Refuse, when all is read, a folder that was made anew since it was opened: files of both may have
        been read."""
        now, opened = (self.checksums(manifest) for manifest in (self.manifest_of(self.path), self.manifest))
        if not opened.items() <= now.items():  # there may be more files now
            raise MexmaError(f"{self.path} was made anew while it was read", "run the same command again")

    @classmethod
    def finish(cls, path: Path, manifest: Manifest) -> Self:
        """Write the manifest of a folder that was made in the workplace of `path`, and give it that name,
        which nothing else may have by then."""
        files.write_json_atomic(files.in_work(path) / files.MANIFEST, manifest.model_dump(mode="json"))
        if path.exists():
            cls.check_replaceable(path, overwrite=True)
        files.commit(path)
        return cls.open(path)

    @classmethod
    def check_replaceable(cls, path: Path, overwrite: bool) -> None:
        """Refuse an output that is there: such a folder, whole or damaged, unless with `overwrite`; one that
        also holds files that are not its own; or anything else. And refuse a name of another format."""
        if not path.exists():
            check_name(path, cls.ending)
            return
        if not cls.is_at(path):
            what = f"is there and is no {cls.what}: not overwritten"
            raise MexmaError(
                f"{path} {what if path.name else 'is a folder, not a store'}", "name another output"
            )
        if not overwrite:
            raise MexmaError(f"{path} is there already", "--overwrite makes it anew, or name another output")
        own: files.Names = re.compile(rf"{cls.names.pattern}|{re.escape(files.MANIFEST)}")
        with suppress(MexmaError):
            own = {files.MANIFEST, *cls.checksums(cls.manifest_of(path))}
        files.check_own(path, own)

    @classmethod
    def has_files(cls, folder: Path) -> bool:
        """Whether there are files of such a folder; its manifest may be damaged or missing."""
        return folder.is_dir() and any(cls.names.fullmatch(file.name) for file in folder.iterdir())

    @classmethod
    def is_at(cls, folder: Path) -> bool:
        """Whether there is such a folder, whole or damaged."""
        return cls.has_files(folder) or _kind(folder) == cls._own_kind()

    @classmethod
    def _own_kind(cls) -> str:
        return str(cls.model.model_fields["kind"].default)


def _kind(folder: Path) -> object:
    with suppress(MexmaError):
        return files.folder_kind(folder)
    return None


def check_name(path: Path, ending: str) -> None:
    """Refuse a store, which is a folder, that is named like a file of another format, like another store, or
    `-`."""
    if str(path) == "-":
        raise MexmaError("stdout cannot be a store, which is a folder", "name one: -o NAME.emb or NAME.knn")
    if path.suffix.lower() in OTHER_FORMATS - {ending}:
        raise MexmaError(
            f"{path} would be a folder for mexma, not what is known as {path.suffix}",
            f"name it {path.stem}{ending}; of embeddings, `mexma convert` makes a .npy file or raw vectors",
        )
