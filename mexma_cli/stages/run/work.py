"""Does a unit of work: what a worker of any executor runs."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from mexma_cli.encoder.loading.folder import files_of_encoder
from mexma_cli.errors import MexmaError
from mexma_cli.files import checksum_again, checksum_file
from mexma_cli.settings.section import naming_keys, with_keys
from mexma_cli.settings.stages import BUNDLED
from mexma_cli.stages.run.plan import read_unit
from mexma_cli.stages.run.texts import UsesEncoder, loaded
from mexma_cli.stages.run.units import ANEW, Record, RunFolder, Task, Unit
from mexma_cli.store.layout import AGAIN as EMBED_AGAIN
from mexma_cli.text.pages import stating


def perform(run: Path, todo: Path) -> Record:
    """Do a unit of a run (its folder, and the unit's description), unless it is done."""
    folder, unit = RunFolder(run), read_unit(todo)
    with only_worker(todo):
        if (record := folder.done(unit, whole=True)) is not None:
            return record
        keys = {place.format(unit.room): section for place, section in unit.keys.items()}
        key, state, began = folder.key(unit), _state_of_files(unit), _clocks()
        with folder.workplace_of(unit, key) as made:
            try:
                with stating(unit.encoding), naming_keys(keys):
                    facts = unit.do(Task(folder, unit, made))
            except MexmaError as error:
                raise MexmaError(error.message, ANEW if error.hint == EMBED_AGAIN else error.hint) from None
            for name, now in _state_of_files(unit).items():
                if now != state[name]:  # it may have been another one for a moment
                    loaded.cache_clear()
                    raise _changed(name)
            if "notes" in facts:
                facts["notes"] = [with_keys(note, keys) for note in facts["notes"]]
            ended, spent = _clocks()
            record = folder.finish(unit, key, made, facts, (ended - began[0], spent - began[1]))
        folder.tidy(unit)
        return record


def _state_of_files(unit: Unit) -> dict[str, tuple[int, ...]]:
    """When the user's files that a unit reads, its encoder's among them, were last written to, and how long
    they are; one that is not what the plan was made of is refused."""
    found: dict[str, tuple[int, ...]] = {}
    wanted = {Path(name): checksum for name, checksum in (unit.files | unit.model).items()}
    if isinstance(unit, UsesEncoder) and unit.encoder_files:
        model = unit.encoder.name or BUNDLED
        of_encoder = files_of_encoder(model)
        if of_encoder.keys() != unit.encoder_files.keys():
            raise _changed(model)
        wanted |= {path: unit.encoder_files[name] for name, path in of_encoder.items()}
    for path, checksum in wanted.items():
        info = path.stat() if path.is_file() else None
        look = checksum_again if str(path) not in unit.files else checksum_file
        if info is None or look(path) != checksum:
            raise _changed(str(path))
        found[str(path)] = info.st_size, info.st_mtime_ns, info.st_ctime_ns
    return found


def _changed(name: str) -> MexmaError:
    return MexmaError(f"{name} has changed while the run went on", "run the same command again")


@contextmanager
def only_worker(todo: Path) -> Iterator[None]:
    """Wait until no other process works on a unit, and keep others waiting. Where the file system has no
    locks two workers may do the same unit, to the same bytes."""
    descriptor = os.open(todo, os.O_RDONLY)
    try:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _clocks() -> tuple[float, float]:
    """Seconds by the clock, and of the processor for this process and those that it has started."""
    ended = os.times()
    return time.monotonic(), time.process_time() + ended.children_user + ended.children_system
