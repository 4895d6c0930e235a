"""Units of work: one output each, made of inputs and settings, and done when its record says so.

A unit's record holds the key of what it was made of: its settings, the checksums of its inputs' outputs and
of the files of the user's. A unit whose record has the key of today is done, whoever did it and however
often; so units may be executed more than once, anywhere and in any order.

An output is made in a workplace beside its place, and takes that when it is whole. The record lists its
files: nothing else is ever replaced or removed, and these only if they are as they were made.
"""

from __future__ import annotations

import json
import os
import re
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, product, starmap
from math import prod
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import AfterValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from mexma_cli.errors import MexmaError
from mexma_cli.files import (
    MANIFEST,
    MARK,
    OF_SYSTEMS,
    PROGRESS,
    Sealed,
    Unfinished,
    behind_link,
    checksum_file,
    clear,
    commit,
    fingerprint,
    folder_kind,
    make_folder,
    make_parent,
    no_space_as_message,
    read_manifest,
    remove,
    stays_inside,
    until_done,
    workplace,
    workplace_path,
    write_json_atomic,
)
from mexma_cli.settings.corpus import CorpusEncoder, CorpusMining, CorpusRecipe
from mexma_cli.settings.section import Section
from mexma_cli.stages.costs import Cost
from mexma_cli.store.arrays import check_content
from mexma_cli.store.embeddings import EmbeddingStore
from mexma_cli.store.folder import Frozen
from mexma_cli.store.layout import shard_files
from mexma_cli.store.neighbours import content_checksum
from mexma_cli.store.shard import link_or_copy

FORMAT_VERSION = 3  # units whose record has an earlier one are done anew
BITEXT = "bitext"
"""The folder of results in a run's folder: a folder for each language pair."""
REJECTS = "rejects.tsv.zst"
"""There, what the filter drops."""
ANEW = "remove it, and run again: it is made anew"
"""Advice about a damaged output."""


def _inside(name: str) -> str:
    if not stays_inside(name):
        raise PydanticCustomError("name", "{name} is no name in the run's folder", {"name": repr(name)})
    return name


Inside = Annotated[str, AfterValidator(_inside)]
"""A path in the run's folder."""


Stage = Literal["split", "read", "embed", "knn", "mine", "align", "filter"]
STAGES: tuple[Stage, ...] = get_args(Stage)  # in the order in which a pair goes through them
Facts = dict[str, Any]


@dataclass(frozen=True)
class Sizes:
    """What the memory of units depends on."""

    recipe: CorpusRecipe
    lines: Mapping[str, int]  # of each language
    words: int  # different ones of all texts
    dim: int  # of vectors
    encoder: int  # bytes that it takes


class Unit(Frozen):
    """A unit of work to be done; a file in the run's folder tells it to a worker.

    Each kind of work is a class derived from this one. Its own fields are its settings: all that decides the
    output besides the inputs.

    Attributes:
        work: The name of the kind: `search_index` for `SearchIndex`.
        cost: What it costs on a core of an Intel Xeon with AVX-512, with `mini`, see `stages.costs`.
        keys: Where the recipe has the settings, for messages; `{}` stands for the language.
        on_gpu: Whether the work is an encoder's, which a GPU does faster.
        grows: Once it is done, more of the plan is known.
        name: `fra_Latn/embed/00003`.
        inputs: What the work calls them -> the names of units.
        parts: The same, of those of which the unit needs a part; its settings have that part's checksum.
        files: The user's files -> their checksums.
        model: The file that tells languages, or a classifier's weights, if the user has one -> its checksum.
        encoding: Of the user's files, if it was stated.
    """

    model_config = ConfigDict(defer_build=True)

    kinds: ClassVar[dict[str, type[Unit]]] = {}
    work: ClassVar[str]
    stage: ClassVar[Stage]
    cost: ClassVar[Cost]
    keys: ClassVar[dict[str, type[Section]]] = {"mine": CorpusMining, "encoder": CorpusEncoder}
    on_gpu: ClassVar[bool] = False
    grows: ClassVar[bool] = False
    holds: ClassVar[dict[str, int]] = {}  # see `memory`

    name: Inside
    inputs: dict[str, str] = Field(default_factory=dict)
    parts: dict[str, str] = Field(default_factory=dict)
    files: dict[str, str] = Field(default_factory=dict)
    model: dict[str, str] = Field(default_factory=dict)
    output: Inside
    encoding: str | None = None

    def __init_subclass__(cls, **how: Any) -> None:
        super().__init_subclass__(**how)
        if "do" in vars(cls):
            cls.work = re.sub("(?<=[a-z])(?=[A-Z])", "_", cls.__name__).lower()
            cls.kinds[cls.work] = cls

    @abstractmethod
    def do(self, task: Task) -> Facts:
        """Write the task's output, and return the facts for its record."""

    @classmethod
    def memory(cls, sizes: Sizes) -> dict[str, int]:
        """Parts of what a worker holds that does such units -> their bytes at most. Units of several kinds
        have parts of the same name in common."""
        return cls.holds

    @property
    def room(self) -> str:
        """The language or language pair whose unit it is."""
        return self.name.partition("/")[0]

    @property
    def is_result(self) -> bool:
        """Whether the run is done for what it makes."""
        return self.output.startswith(f"{BITEXT}/")

    @property
    def needs(self) -> dict[str, str]:
        """The outputs that it needs: `inputs` and `parts`."""
        return self.inputs | self.parts


@dataclass(frozen=True)
class Kind:
    """Units that do the same, one for each cell of a grid: there may be millions, which nobody has to list.

    Attributes:
        name: What the names of its units begin with.
        of: Their class.
        unit: From a place in the grid to the unit there.
        grid: Its size: down, or down and across; empty for a single unit.
        rows: That all of them read together.
        cells: Products of two vectors, or of vectors and codes, that all of them compute together.
    """

    name: str
    of: type[Unit]
    unit: Callable[..., Unit]
    grid: tuple[int, ...] = ()
    rows: int = 0
    cells: float = 0

    @property
    def count(self) -> int:
        """The number of units."""
        return prod(self.grid)

    def units(self) -> Iterator[Unit]:
        """The units, in their order."""
        return starmap(self.unit, product(*map(range, self.grid)))


def one(unit: Unit, rows: int, cells: float = 0) -> Kind:
    """The kind of a single unit, which reads so many rows and computes so many cells."""
    return Kind(unit.name, type(unit), lambda: unit, (), rows, cells)


class Record(Sealed):
    """The record of a unit that is done."""

    SEAL = "seal"
    format_version: int = FORMAT_VERSION
    key: str
    """See `RunFolder.key`; empty while the output takes its place, where the one before may be, too."""
    output: Inside
    files: dict[Inside, str] = Field(default_factory=dict)
    """The files of the output, with their checksums."""
    left: dict[Inside, str] = Field(default_factory=dict)
    """Files of sentence pairs beside them, which an earlier run has written in other formats; while the
    output takes its place, all that was there before."""
    checksum: str
    """Checksum of the output's content."""
    facts: dict[str, Any]
    """Facts for later units and for the report; equal inputs give equal ones."""
    seconds: float
    """Seconds by the clock that it took."""
    processor_seconds: float = 0.0
    """Seconds of the processor that it took, of all threads and processes together."""
    seal: str = ""
    """A checksum of all that the record says otherwise."""

    @property
    def made(self) -> dict[str, str]:
        """The files that the unit has made; while the output takes its place, also those before."""
        return self.files if self.key else self.left | self.files


def in_the_way(path: Path) -> MexmaError:
    """The error of something that is in the way of a run, and not of it."""
    return MexmaError(
        f"{path} is not of this run, and would be lost", "move it away, or name another folder for `run`"
    )


_NAMES = {"name", "inputs", "parts", "files", "model"}  # fields that say where something is
UNITS = "units"
"""The folder in that of a run with what is to be done and the records."""


@dataclass(frozen=True)
class RunFolder:
    """The folder of a run: `units/` has what is to be done and the records, the rest are outputs."""

    path: Path

    @property
    def begun(self) -> bool:
        """Whether a run has been here."""
        return (self.path / UNITS / MARK).is_file()

    def check_free(self) -> None:
        """Refuse a folder where something has the name of what is written of a run, and no run has been."""
        if not self.begun:
            units = [path for path in sorted((self.path / UNITS).rglob("*")) if not path.is_dir()]
            for path in (*units, *self.path.glob("logs/worker-*"), *self.path.glob("slurm/batch-*")):
                if not OF_SYSTEMS.fullmatch(path.name):
                    raise in_the_way(path)

    def begin(self) -> None:
        """Mark the folder as a run's."""
        make_folder(self.path / UNITS)
        (self.path / UNITS / MARK).touch()

    def todo(self, unit: str) -> Path:
        """The file that describes a unit to a worker."""
        return self.path / UNITS / f"{unit}.todo.json"

    def record(self, unit: str) -> Record | None:
        """The record of a unit that was done, whether or not it is up to date."""
        record = self._read(unit)
        of_today = record is not None and record.format_version == FORMAT_VERSION and record.key
        return record if of_today else None

    def _read(self, unit: str) -> Record | None:
        path = f"{self.path}/units/{unit}.json"
        try:
            info = os.stat(path)
        except OSError:
            return None
        return _read_record(path, (info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns))

    def _write(self, unit: str, record: Record) -> None:
        write_json_atomic(self.path / UNITS / f"{unit}.json", record.model_dump(mode="json"))

    def _names(self, room: str) -> Iterator[str]:
        """The files of all units, or those of a language or language pair, without their `.json`."""
        root = f"{self.path}/{UNITS}"
        for folder, folders, files in os.walk(f"{root}/{room}".rstrip("/")):
            folders[:] = [name for name in folders if not name.endswith(".partial")]
            place = f"{folder}/".removeprefix(f"{root}/")
            yield from (place + name[: -len(".json")] for name in files if name.endswith(".json"))

    def _records(self, room: str = "") -> Iterator[tuple[str, Record]]:
        """All records that can be read, or those of a language or language pair, by their units' names."""
        for name in sorted(self._names(room)):
            if not name.endswith((".todo", ".ended")):
                with suppress(MexmaError):
                    record = self._read(name)
                    assert record is not None, name
                    yield name, record

    def results_of_others(self, pairs: Set[str]) -> Iterator[str]:
        """The results that earlier runs have made of other language pairs than these, and that are there."""
        there = sorted(path.name for path in (self.path / BITEXT).glob("*"))
        for _, record in chain.from_iterable(self._records(name) for name in there if name not in pairs):
            for name in record.files | record.left:
                if name.startswith(f"{BITEXT}/") and (self.path / name).is_file():
                    yield name

    def remove_others(self, units: Set[str], read_unit: Callable[[Path], Unit]) -> None:
        """Remove what other units have made or begun of the languages and language pairs of these, which are
        all of a run, such as tiles that were cut otherwise: no results, and no file that is not as it was
        made. `read_unit` reads a unit's description."""
        for room in sorted({name.partition("/")[0] for name in units}):
            there = set(self._names(room))
            others = {name.removesuffix(".todo").removesuffix(".ended") for name in there} - units
            records = dict(self._records(room)) if others else {}
            needed = {file for name in records.keys() & units for file in records[name].files}
            for name in sorted(others):
                record, folders = records.get(name), set[Path]()
                if name in there if record is None else record.output.startswith(f"{BITEXT}/"):
                    continue  # damaged, or a result
                with suppress(MexmaError):  # described by another version
                    unit = read_unit(self.todo(name))
                    self.tidy(unit)
                    folders.add(self.path / unit.output)
                for file, checksum in record.made.items() if record is not None else ():
                    if file not in needed and self._is(file, checksum):
                        remove(self.path / file)
                        folders.add((self.path / file).parent)
                for folder in sorted(folders | {one.parent for one in folders}, reverse=True):
                    with suppress(OSError):
                        folder.rmdir()
                for ending in (".todo.json", ".ended.json", ".json"):
                    remove(self.path / UNITS / f"{name}{ending}")

    def checksum(self, unit: str) -> str:
        """Checksum of the output's content of a unit that is done."""
        record = self.record(unit)
        assert record is not None, unit
        return record.checksum

    def key(self, unit: Unit, checksum_of: Callable[[str], str] | None = None) -> str:
        """A checksum of all that decides a unit's output; its inputs are done. `checksum_of`: in place of
        `checksum`, where that is known already."""
        made_of = {name: (checksum_of or self.checksum)(other) for name, other in unit.inputs.items()}
        files = list(unit.files.values()), list(unit.model.values())
        return fingerprint([FORMAT_VERSION, unit.work, unit.model_dump(exclude=_NAMES), made_of, files])

    def done(
        self, unit: Unit, whole: bool = False, checksum_of: Callable[[str], str] | None = None
    ) -> Record | None:
        """The record of a unit that is up to date, with its output there; None where it has to be done.
        `whole`: compare the checksums of its output, even if that is no result of the run: what others read
        is compared when they do. `checksum_of` as for `key`."""
        record = self.record(unit.name)
        if record is None or record.key != self.key(unit, checksum_of):
            return None
        for name, checksum in record.files.items():
            path = f"{self.path}/{name}"
            if not os.path.isfile(path):
                return None
            if (whole or unit.is_result) and checksum_file(Path(path)) != checksum:
                return None
        return record

    def announce(self, unit: Unit) -> Path:
        """Write down what is to be done, and return the file.

        A file that says so already stays: workers of an earlier run may hold it. After a power cut the next
        run writes it again, so it need not be on the disk.
        """
        path = self.todo(unit.name)
        text = json.dumps({"work": unit.work} | unit.model_dump()).encode()
        if not path.is_file() or path.read_bytes() != text:
            if not path.parent.is_dir():
                make_parent(path)
            new = path.with_suffix(".new")
            with no_space_as_message(path):
                new.write_bytes(text)
                new.replace(path)
        return path

    def own_files(self, unit: Unit, whole: bool = False) -> dict[str, str]:
        """Files and checksums that the run has made where a unit's output goes, as its records list them;
        anything else there is refused, and a file that is not as it was made. `whole`: read these files, and
        those that the unit has made in another place."""
        kept = self._read(unit.name)
        records = [kept] if kept else []
        there = self._names_there(unit)
        if not there <= set().union(*(record.files | record.left for record in records)):
            others = {name: one for name, one in self._records(unit.room) if one.output == unit.output}
            records += [one for name, one in others.items() if name != unit.name]
        listed, made = dict[str, str](), dict[str, str]()
        for record in records:
            before = {} if record.key else record.left  # what is there may be that still
            as_before = {name: sum_ for name, sum_ in before.items() if self._is(name, sum_)}
            listed |= record.left | record.files | as_before
            made |= record.made | as_before
        for name in sorted(there - listed.keys()):
            raise in_the_way(self.path / name)
        for name, checksum in made.items() if whole else ():
            if (self.path / name).is_file():
                check_content(self.path / name, checksum, ANEW)
        return listed

    def _is(self, name: str, checksum: str) -> bool:
        return (self.path / name).is_file() and checksum_file(self.path / name) == checksum

    def _names_there(self, unit: Unit) -> set[str]:
        """The names that are there where a unit's output goes, but for workplaces."""
        output = self.path / unit.output
        if not output.is_dir():
            return {unit.output} if os.path.lexists(output) else set()
        inside = [one for one in output.iterdir() if not (one / MARK).is_file()]
        return {f"{unit.output}/{one.name}" for one in inside if not OF_SYSTEMS.fullmatch(one.name)}

    @contextmanager
    def workplace_of(self, unit: Unit, key: str) -> Iterator[Path]:
        """The place to make a unit's output in; a killed worker's beginning for this key is still there."""
        place = self._place(unit)
        self.own_files(unit, whole=True)
        make_parent(place)
        with workplace(place) as part:
            made, kept = part / place.stem, self._read(unit.name)
            run = Unfinished(by="run", of={"unit": unit.name, "key": key})
            replaced = kept is not None and not kept.key  # what is in the workplace may be the one before
            if replaced or not run.left_in(workplace_path(place)):
                remove(workplace_path(place), but=(MARK,))
                part.mkdir()
                run.enter(workplace_path(place))
            elif (made / MANIFEST).is_file():
                remove(made)  # finished, but nobody has said so
            with until_done(workplace_path(place), lambda: any(part.rglob(PROGRESS))):
                yield made

    def finish(
        self, unit: Unit, key: str, made: Path, facts: dict[str, Any], seconds: tuple[float, float]
    ) -> Record:
        """Put an output into its place, and write the record of its unit, with `seconds` by the clock and of
        the processor; inputs that were made anew meanwhile are refused."""
        if self.key(unit) != key:
            raise MexmaError(f"inputs of {unit.name} were made anew meanwhile", "run again")
        output, before = self.path / unit.output, self._read(unit.name)
        if before is not None and before.output != unit.output:
            for name in before.made:
                remove(self.path / name)
            with suppress(OSError):
                (self.path / before.output).rmdir()
        own, files = self.own_files(unit), _files(made, unit.output)
        left = {}
        if unit.is_result:
            left = {name: own[name] for name in own.keys() - files if (self.path / name).is_file()}
        record = Record(
            key=key,
            output=unit.output,
            files=files,
            left=left,
            checksum=_content(made, files),
            facts=facts,
            seconds=round(seconds[0], 3),
            processor_seconds=round(seconds[1], 3),
        ).sealed()
        self._write(unit.name, record.sealed(key="", left=own))
        for name in left:  # from here on the workplace is not gone on with
            link_or_copy(self.path / name, made / Path(name).name, left[name], ANEW)
        commit(output, made=made, own={Path(name).name for name in own})
        self._write(unit.name, record)
        return record

    def tidy(self, unit: Unit) -> None:
        """Remove the workplaces that a killed worker has left of a unit that is done."""
        output = f"{self.path}/{unit.output}"
        output = str(behind_link(Path(output))) if os.path.islink(output) else output
        for final in (f"{output}.unit", output, f"{self.path}/units/{unit.name}.json"):
            if os.path.exists(f"{final}.partial"):
                with suppress(MexmaError):  # another process has just got it
                    clear(Path(final))

    def _place(self, unit: Unit) -> Path:
        """The path whose workplace is that of a unit; the stage has one of its own in it."""
        output = behind_link(self.path / unit.output)
        return output.with_name(f"{output.name}.unit")


@lru_cache(maxsize=1 << 14)
def _read_record(path: str, state: tuple[int, ...]) -> Record:
    """A record, which many units look at: it is read again only if it was written to meanwhile."""
    hint = "remove it and its output, and run again: they are made anew"
    record = read_manifest(Path(path), Record, FORMAT_VERSION, hint)
    if not record.seal:
        raise MexmaError(f"{path} is damaged: it has no checksum", hint)
    return record


def _files(made: Path, output: str) -> dict[str, str]:
    """The files of an output, by what they are called in the run's folder, with their checksums."""
    if made.is_file():
        return {output: checksum_file(made)}
    if folder_kind(made) == "embeddings":
        shards = EmbeddingStore.open(made).manifest.shards
        found = {file.name: file.checksum for shard in shards for file in shard_files(shard)}
        found[MANIFEST] = checksum_file(made / MANIFEST)
    else:
        paths = [path for path in sorted(made.rglob("*")) if path.is_file()]
        found = {
            path.relative_to(made).as_posix(): checksum_file(path)
            for path in paths
            if not OF_SYSTEMS.fullmatch(path.name)
        }
    return {f"{output}/{name}": checksum for name, checksum in found.items()}


def _content(made: Path, files: Mapping[str, str]) -> str:
    """A checksum of an output, without what does not matter to those who read it; `files` are some of
    `_files`."""
    if made.is_file():
        (checksum,) = files.values()
        return checksum
    if folder_kind(made) == "embeddings":
        return content_checksum(EmbeddingStore.open(made))
    return fingerprint({Path(name).name: checksum for name, checksum in files.items()})


@dataclass(frozen=True)
class Task:
    """A unit that is being done, and where to write."""

    folder: RunFolder
    unit: Unit
    output: Path

    def record(self, name: str) -> Record:
        """The record of an input."""
        record = self.folder.record(self.unit.needs[name])
        assert record is not None, name
        return record

    def input(self, name: str, file: str | None = None) -> Path:
        """The output of the unit that is this input, or a file of it, compared with its checksum. Of a folder
        with a manifest only that is: who reads the rest compares it with the manifest."""
        record = self.record(name)
        path, files = self.folder.path / record.output, list(record.files)
        if file is not None:
            path, files = path / file, [f"{record.output}/{file}"]
        elif (manifest := f"{record.output}/{MANIFEST}") in files:
            files = [manifest]
        for one in files:
            if not (self.folder.path / one).is_file():
                raise MexmaError(f"{self.folder.path / one} is missing", "run again: it is made anew")
            check_content(self.folder.path / one, record.files[one], ANEW)
        return path

    def store(self, name: str) -> EmbeddingStore:
        """The embedding store that is this input."""
        return EmbeddingStore.open(self.input(name))

    def sentences(self, name: str, what: str = "txt") -> Path:
        """A file of an input that `Split` made: `txt` or `docs`."""
        (file,) = (file for file in self.record(name).files if file.endswith(f".{what}.zst"))
        return self.input(name, Path(file).name)
