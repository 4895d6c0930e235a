"""Units of work: one output each, made of inputs and settings, and done when its record says so.

A unit's record holds the key of what it was made of: its settings, the checksums of its inputs' outputs and
of the files of the user's. A unit whose record has the key of today is done, whoever did it and however
often; so units may be executed more than once, anywhere and in any order.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field

from mexma_cli.errors import MexmaError
from mexma_cli.files import (
    checksum_file,
    fingerprint,
    kind_of,
    make_parent,
    no_space_as_message,
    read_json,
    read_manifest,
    write_json_atomic,
)
from mexma_cli.store.embeddings import EmbeddingStore
from mexma_cli.store.layout import Frozen
from mexma_cli.store.neighbours import content_checksum

FORMAT_VERSION = 1


class Unit(Frozen):
    """What is to be done; a file in the run's folder tells it to a worker.

    Attributes:
        name: `fra_Latn/embed/00003`.
        stage: What users call the stage that it belongs to.
        work: The name of a function in `stages.run.work`.
        settings: All that decides the output besides the inputs; JSON.
        inputs: What the work calls them -> the names of units.
        parts: The same, of those of which the unit needs a part; its settings have that part's checksum.
        files: The user's files -> their checksums.
        model: The file that tells languages, if the user has one -> its checksum.
        output: Its path in the run's folder.
        grows: Once it is done, more of the plan is known.
    """

    name: str
    stage: str
    work: str
    settings: dict[str, Any] = Field(default_factory=dict)
    inputs: dict[str, str] = Field(default_factory=dict)
    parts: dict[str, str] = Field(default_factory=dict)
    files: dict[str, str] = Field(default_factory=dict)
    model: dict[str, str] = Field(default_factory=dict)
    output: str
    grows: bool = False

    @property
    def on_gpu(self) -> bool:
        """Whether the work is an encoder's, which a GPU does faster."""
        return "encoder" in self.settings

    @property
    def needs(self) -> dict[str, str]:
        """What comes before it: `inputs` and `parts`."""
        return self.inputs | self.parts


class Record(Frozen):
    """What is known of a unit that is done."""

    format_version: int = FORMAT_VERSION
    key: str
    """See `RunFolder.key`."""
    output: str
    checksum: str
    """Of the output's content."""
    facts: dict[str, Any]
    """What later units, and the report, want to know of it; the same for equal inputs."""
    seconds: float
    """That it took."""


@dataclass(frozen=True)
class RunFolder:
    """The folder of a run: `units/` has what is to be done and the records, the rest are outputs."""

    path: Path

    def todo(self, unit: str) -> Path:
        """The file that describes a unit to a worker."""
        return self.path / "units" / f"{unit}.todo.json"

    def _record_path(self, unit: str) -> Path:
        return self.path / "units" / f"{unit}.json"

    def record(self, unit: str) -> Record | None:
        """The record of a unit, whether or not it is up to date.

        Raises:
            MexmaError: It is damaged.
        """
        path = self._record_path(unit)
        return read_manifest(path, Record, FORMAT_VERSION) if path.is_file() else None

    def key(self, unit: Unit) -> str:
        """A checksum of all that decides a unit's output; its inputs are done."""
        made_of = {}
        for name, other in unit.inputs.items():
            record = self.record(other)
            assert record is not None, other
            made_of[name] = record.checksum
        return fingerprint(
            [
                *(FORMAT_VERSION, unit.work, unit.settings, made_of),
                *(list(unit.files.values()), list(unit.model.values()), unit.output),
            ]
        )

    def done(self, unit: Unit) -> Record | None:
        """The record of a unit that is up to date, with its output there; None where it has to be done."""
        record = self.record(unit.name)
        if record is None or record.key != self.key(unit) or not (self.path / record.output).exists():
            return None
        return record

    def announce(self, unit: Unit) -> Path:
        """Write down what is to be done, and return the file.

        A file that says so already stays: workers of an earlier run may hold it. After a power cut the next
        run writes it again, so it need not be on the disk.
        """
        path, text = self.todo(unit.name), json.dumps(unit.model_dump()).encode()
        if not path.is_file() or path.read_bytes() != text:
            if not path.parent.is_dir():
                make_parent(path)
            new = path.with_suffix(".new")
            with no_space_as_message(path):
                new.write_bytes(text)
                new.replace(path)
        return path

    def finish(self, unit: Unit, facts: dict[str, Any], seconds: float) -> Record:
        """Write the record of a unit whose output is there."""
        output = self.path / unit.output
        record = Record(
            key=self.key(unit),
            output=unit.output,
            checksum=content_of(output),
            facts=facts,
            seconds=round(seconds, 3),
        )
        write_json_atomic(self._record_path(unit.name), record.model_dump(mode="json"))
        return record

    def clear(self, unit: Unit) -> Path:
        """Remove what an earlier run made in place of a unit's output, and return the output's path.

        What was begun there stays: the stage that began it goes on, or starts anew.
        """
        self._record_path(unit.name).unlink(missing_ok=True)
        output = self.path / unit.output
        if output.is_dir():
            shutil.rmtree(output)  # all in here is a run's
        else:
            output.unlink(missing_ok=True)
        make_parent(output)
        return output


def content_of(path: Path) -> str:
    """A checksum of an output, without what does not matter to those who read it."""
    if path.is_file():
        return checksum_file(path)
    if kind_of(path) == "embeddings":
        return content_checksum(EmbeddingStore.open(path))
    return fingerprint({file.name: checksum_file(file) for file in sorted(path.iterdir())})


def read_unit(todo: Path) -> Unit:
    """The unit that a file describes.

    Raises:
        MexmaError: It is damaged.
    """
    try:
        return Unit.model_validate(read_json(todo))
    except ValueError as error:
        raise MexmaError(f"{todo} is damaged: {error}") from None


@contextmanager
def only_worker(todo: Path) -> Iterator[None]:
    """Wait until no other process works on a unit, and keep others waiting.

    Where the file system has no locks two workers may do the same unit, to the same bytes.
    """
    descriptor = os.open(todo, os.O_RDONLY)
    try:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
