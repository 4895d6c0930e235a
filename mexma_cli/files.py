"""Files on disk: written whole or not at all, manifests, checksums, and one writer at a time.

Whatever is not finished lies in a `workplace`, a folder beside the output that has a mark of ours in it. When
all is on the disk it gets its final name, so that nothing half-written is ever found there, and only what is
in such a folder is ever removed. Manifests hold no time and no host, so equal runs give equal bytes.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import logging
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import IO, Any, ClassVar, Literal, Self, TypeVar

import xxhash
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from mexma_cli.errors import MexmaError

log = logging.getLogger(__name__)

Model = TypeVar("Model", bound=BaseModel)

MANIFEST = "manifest.json"
"""In a finished store or folder of prepared pairs; written last."""
PROGRESS = "progress.json"
"""In the workplace of an output, where the same command can go on."""
MARK = ".mexma"
"""In every workplace, from first to last."""
CHECKPOINT = "checkpoint.json"
"""The manifest of a checkpoint of training."""
_STORE_ENDINGS, _STORE_KINDS = (".emb", ".knn"), ("embeddings", "neighbours", "bitext")
"""Endings of folders that are stores, and the kinds that the manifests of stores state."""
_BEFORE = "before"
"""In a workplace: what had the output's name, where two names cannot be swapped in one step."""
WORK = rf"(?:{re.escape(MARK)}|{_BEFORE}(?:/.*)?)"
KEPT = "kept"
"""In a workplace that has a `PROGRESS`: the folder of what the same command goes on with."""
_INSIDE = rf"{WORK}|progress\.json(?:\.partial(?:/{WORK}|/progress\.json)?)?|{KEPT}(?:/.*)?"
"""Names of the files in workplaces beside an output that is being made."""
OF_SYSTEMS = re.compile(r"(?:.*/)?(?:\.DS_Store|\._[^/]*|Thumbs\.db|desktop\.ini|\.nfs[0-9a-f]+)")
"""Files that file managers and NFS put beside any file."""
_CHECKSUM = re.compile("[0-9a-f]{32}")
Names = Collection[str] | re.Pattern[str]
_FULL = 1 << 16  # bytes that a disk has left on which a write failed
_NO_SPACE = {errno.ENOSPC: "no space left on the disk", errno.EDQUOT: "the disk quota is used up"}
_NO_LOCKS = {errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK, errno.ENOSYS}


def shipped_folder(name: str) -> Path:
    """A folder of files that come with the package: in it, or beside it in a checkout."""
    package = Path(__file__).parent
    return package / name if (package / name).is_dir() else package.parent / name


def resolved(path: Path) -> Path:
    """The absolute path without links; a link to itself is refused."""
    try:
        path.stat()
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise MexmaError(f"{path} is a link to itself", "remove it, or give another name") from None
    return path.resolve()


def behind_link(path: Path) -> Path:
    """The path itself, or the file that a link leads to: writing there leaves the link a link."""
    return resolved(path) if path.is_symlink() else path


def make_folder(folder: Path) -> list[Path]:
    """Make a folder, and those that it is in, unless it is there: after a power cut it still is. Returns the
    folders that were made, the outermost first."""
    if folder.is_dir():
        return []
    made = make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    fsync_folder(folder.parent)
    return [*made, folder]


def check_parent(path: Path) -> None:
    """Check that an output can be written and lies in no store; its `workplace` makes the folder, if that is
    missing. The message names the output or its folder."""
    check_outside_stores(path)
    folder = behind_link(path).parent
    there = next((one for one in (folder, *folder.parents) if os.path.exists(one)), folder)
    what = f"{path} cannot be written" if folder.is_dir() else f"{folder}: the folder cannot be made"
    try:
        with tempfile.TemporaryFile(dir=there), suppress(FileNotFoundError):
            (there / workplace_path(path).name).lstat()  # its name may be too long
            folder.lstat()
    except OSError as error:
        raise MexmaError(f"{what}: {error.strerror}", "name another output") from None


def make_parent(path: Path) -> None:
    """Make the folder of an output, as `check_parent` checks it."""
    check_parent(path)
    folder = behind_link(path).parent
    try:
        make_folder(folder)
    except OSError as error:
        why = f"{folder}: the folder cannot be made: {error.strerror}"
        raise MexmaError(why, "name another output") from None


def check_outside_stores(path: Path) -> None:
    """Refuse an output below a folder that is a store, or is named like one: any other file there makes the
    store unreadable."""
    named = [one for one in path.parents if Path(one.name.removesuffix(".partial")).suffix in _STORE_ENDINGS]
    around = [folder for folder in behind_link(path).absolute().parents if _is_store(folder)]
    for store in (*named, *around):
        raise MexmaError(
            f"{path} would lie in {store}, and a store holds nothing but its own files",
            f"name one beside it: {store.parent / path.name}",
        )


def _is_store(folder: Path) -> bool:
    try:
        return folder_kind(folder) in _STORE_KINDS
    except (MexmaError, OSError):  # no manifest that can be read
        return False


def folder_kind(folder: Path) -> Any:
    """The kind that a folder's manifest states; None if it states none, or there is no manifest. One that is
    not JSON is refused."""
    if not (folder / MANIFEST).is_file():
        return None
    content = read_json(folder / MANIFEST)
    return content.get("kind") if isinstance(content, dict) else None


def workplace_path(final: Path) -> Path:
    """The folder that is the `workplace` of an output: ``NAME.partial``."""
    final = behind_link(final)
    return final.parent / f"{final.name}.partial"


def in_work(final: Path) -> Path:
    """Where an output is made, in its `workplace`."""
    return workplace_path(final) / behind_link(final).name


@dataclass
class _Together:
    """The outputs of a block of `together`: the workplaces that wait for its end, and what is in them."""

    stack: ExitStack
    folders: set[Path] = field(default_factory=set)
    finals: list[Path] = field(default_factory=list)


_group: ContextVar[_Together | None] = ContextVar("_group", default=None)
"""The open block of `together`, of each thread."""


@contextmanager
def together() -> Iterator[None]:
    """Let all outputs that are made in the block get their names at its end: all or, after an error, none."""
    assert _group.get() is None
    with ExitStack() as stack:
        made = _Together(stack)
        _group.set(made)
        try:
            yield
        finally:
            _group.set(None)
        commit(*made.finals)


def _group_of(final: Path) -> _Together | None:
    """The open group; None for what is in a folder that is itself made in it."""
    group = _group.get()
    if group is None or group.folders.intersection((final.parent.resolve() / final.name).parents):
        return None
    return group


@contextmanager
def workplace(final: Path) -> Iterator[Path]:
    """Hold the folder in which an output is made against other processes, for as long as the block runs.

    It is empty at first, but where it has a `PROGRESS`: then it is as an earlier run left it. At the end it
    goes, but where it has a `PROGRESS`: then it stays for the next run. In a block of `together`, the end is
    that of the whole block.

    Yields:
        `in_work` of the output: a file or folder to make there, and to `commit`.

    Raises:
        MexmaError: Another process has it, the disk is full, or it holds something that is not ours.
    """
    group = _group_of(final)
    with ExitStack() as own:
        if group:
            group.folders.add(workplace_path(final).resolve())
        yield (group.stack if group else own).enter_context(_workplace(final))


@contextmanager
def _workplace(final: Path) -> Iterator[Path]:
    folder, made = workplace_path(final), list[Path]()
    try:
        with suppress(FileExistsError), no_space_as_message(final):
            made = make_folder(folder.parent)
            folder.mkdir()
        if not folder.is_dir() or folder.is_symlink():
            raise _not_ours(folder, "is no folder")
        with only_writer(folder), _marked(folder, behind_link(final)):
            yield in_work(final)
    except BaseException:  # also a signal that came with the first line
        with suppress(OSError, MexmaError), only_writer(folder):  # it may be another's now
            folder.rmdir()  # if nothing is in it yet
        for outer in reversed(made):
            with suppress(OSError):  # it may be another's now
                outer.rmdir()
        raise


@contextmanager
def _marked(folder: Path, final: Path) -> Iterator[None]:
    """Take a workplace that is held, as it has to be at first, and leave it as it has to be at the end."""
    inside = {path.name for path in folder.iterdir()}
    if inside:
        if MARK not in inside:
            raise _not_ours(folder, f"holds {min(inside)}")
        check_own(folder, re.compile(rf"{re.escape(final.name)}(?:/.*)?|{_INSIDE}", re.DOTALL))
    try:
        with no_space_as_message(final):
            (folder / MARK).touch()
        if (before := folder / _BEFORE).exists() and not os.path.lexists(final):
            before.rename(final)  # a run was killed between two names
        if PROGRESS not in inside:
            remove(folder, but=(MARK,))
        yield
    finally:
        if not (folder / PROGRESS).is_file():
            try:
                if (folder / KEPT).is_dir():  # or a power cut could leave the entry, and not what it is of
                    with suppress(OSError):
                        fsync_folder(folder)
            finally:  # also after a signal
                remove(folder)


def _not_ours(folder: Path, why: str) -> MexmaError:
    return MexmaError(
        f"{folder} has the name of an unfinished output of mexma, and {why}",
        "name another output, or move that away",
    )


def clear(final: Path) -> None:
    """Remove the workplace of an output that is finished: a run was killed when it had done its work."""
    if _is_ours(workplace_path(final)):
        with workplace(final):
            (workplace_path(final) / PROGRESS).unlink(missing_ok=True)


def _is_ours(folder: Path) -> bool:
    """Whether a folder is a workplace, or empty: a run was killed when it had just made or emptied it."""
    return (folder / MARK).is_file() or (folder.is_dir() and not any(folder.iterdir()))


def clear_all(*folders: Path) -> None:
    """Remove the workplaces in folders that killed runs left, but those with which another run can go on."""
    for left in [left for folder in folders for left in folder.glob("*.partial")]:
        if _is_ours(left) and not (left / PROGRESS).exists():
            with suppress(MexmaError), workplace(left.with_suffix("")):
                pass


def remove(path: Path, but: Collection[str] = ()) -> None:
    """Remove a file or folder of ours, or what is in a folder `but` for some names: the mark last.

    An error is no more than a warning: what is left goes when the same output is made again.
    """
    try:
        try:
            _remove(path, but)
        except BaseException:  # also a signal: the rest of it goes now
            _remove(path, but)
            raise
    except OSError as error:
        if os.path.lexists(path):
            log.warning("%s cannot be removed: %s", path, error.strerror)


def _remove(path: Path, but: Collection[str]) -> None:
    if not path.is_dir() or path.is_symlink():
        path.unlink(missing_ok=True)
        return
    for inside in sorted(path.iterdir(), key=lambda inside: inside.name == MARK):
        if inside.name not in but:
            _remove(inside, ())
    if not but:
        path.rmdir()


def check_own(folder: Path, names: Names) -> None:
    """Refuse to replace a folder that holds other files than those that we write there, by their names below
    the folder, or a pattern; the message names one that would be lost."""
    inside = {str(path.relative_to(folder)) for path in folder.rglob("*")}
    ours = filter(names.fullmatch, inside) if isinstance(names, re.Pattern) else names
    if foreign := {name for name in inside.difference(ours) if not OF_SYSTEMS.fullmatch(name)}:
        raise MexmaError(
            f"{folder} also holds {min(foreign)}, which would be lost",
            "move that away, or name another output",
        )


def stays_inside(name: str) -> bool:
    """Whether a name leads to something below its folder, and is written as names in manifests are."""
    return {"", ".", ".."}.isdisjoint(name.split("/")) and {"\\", "\0"}.isdisjoint(name)


def is_special(path: Path) -> bool:
    """Whether it is a pipe or a device."""
    return path.exists() and not path.is_file() and not path.is_dir()


def refuse_pipe(path: str | Path) -> None:
    """Refuse stdin (``-``), a pipe or a device, where a file is read more than once."""
    if str(path) == "-" or is_special(Path(path)):
        name = "stdin" if str(path) == "-" else path
        raise MexmaError(f"{name} cannot be read twice", "write it to a file and name that")


@contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """A binary file that gets its name only when it is whole and on the disk. A link stays one. A pipe or a
    device is written to as it is, and so is stdout (``-``). If the disk is full, nothing is left under either
    name."""
    if str(path) == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    if is_special(path):
        with no_space_as_message(path), path.open("wb") as file:
            yield file
        return
    with no_space_as_message(path), workplace(path) as part:
        with part.open("wb") as file:
            yield file
            fsync_file(file)
        commit(path)


@contextmanager
def no_space_as_message(path: Path) -> Iterator[None]:
    """Turn "disk full" while writing `path` into a message for the user."""
    try:
        yield
    except OSError as error:
        if error.errno not in _NO_SPACE:
            raise
        raise MexmaError(
            f"{path}: {_NO_SPACE[error.errno]}; the file was not written",
            "free some space and run the same command again: what was finished is kept",
        ) from error


@contextmanager
def full_disk_as_os_error(folder: Path) -> Iterator[None]:
    """Turn the errors that writers of tensors and tokenizers have of their own into an OSError where
    the disk of a folder is full, of which they say nothing."""
    try:
        yield
    except Exception as error:
        if isinstance(error, (OSError, MexmaError)) or shutil.disk_usage(folder).free >= _FULL:
            raise
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder)) from error


def fsync_file(file: IO[Any]) -> None:
    """Bring what was written to an open file to the disk."""
    file.flush()
    os.fsync(file.fileno())


def fsync_folder(path: Path) -> None:
    """Make renames inside a folder last."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_json_atomic(path: Path, content: Any) -> None:
    """Write JSON whole or not at all, always the same bytes for the same content."""
    text = json.dumps(content, ensure_ascii=False, indent=1) + "\n"
    with whole_file(path) as file:
        # File names need not be UTF-8: Python has other bytes as surrogates, which are \udcXX in JSON.
        file.write(text.encode("utf-8", "backslashreplace"))


def read_json(path: Path, hint: str | None = None) -> Any:
    """Read JSON. What is missing or is not JSON is refused; `hint` says what to do about a damaged file."""
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        raise MexmaError(f"{path}: no such file") from None
    except (ValueError, RecursionError) as error:  # also numbers of 5,000 digits, and 5,000 brackets
        raise MexmaError(f"{path} is damaged: not JSON ({error})", hint) from None


class Sealed(BaseModel):
    """A manifest with a checksum of itself."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    SEAL: ClassVar[str] = "checksum"
    """The field with that checksum."""
    checksum: str = ""
    """Checksum of the other fields; empty in a manifest that an earlier version wrote."""

    def sealed(self, **changed: Any) -> Self:
        """A copy with its checksum, and with other values where they are given."""
        new = self.model_copy(update=changed)
        return new.model_copy(update={self.SEAL: _seal(new.model_dump(mode="json"), self.SEAL)})


def _seal(content: dict[str, Any], seal: str) -> str:
    return fingerprint({key: value for key, value in content.items() if key != seal})


def read_manifest(path: Path, model: type[Model], version: int, hint: str | None = None) -> Model:
    """Read and check a manifest; refused if it is missing, damaged (`hint` says what to do then), or of
    another version than this program reads."""
    content = read_json(path, hint)
    seal = model.SEAL if issubclass(model, Sealed) else ""
    sealed = isinstance(content, dict) and content.get(seal)
    found = content.get("format_version") if isinstance(content, dict) else None
    if isinstance(found, int) and found > version:
        raise MexmaError(
            f"{path} has format version {found}, this program knows up to {version}",
            "install a newer mexma: pip install -U mexma",
        )
    # The checksum is of what the file says: other versions may have more fields, or fewer.
    if sealed and sealed != _seal(content, seal):
        raise MexmaError(f"{path} is damaged: its checksum is not right", hint)
    try:
        return model.model_validate(content)
    except ValidationError as error:
        problem = error.errors()[0]
        key = ".".join(str(part) for part in problem["loc"])
        what = "is damaged"
        if key == "format_version" or (sealed and problem["type"] in ("missing", "extra_forbidden")):
            what, hint = "was written by another version of mexma", "use that version, or make all anew"
        raise MexmaError(f"{path} {what}: `{key}`: {problem['msg'].removeprefix('Input ')}", hint) from None


class Unfinished(Sealed):
    """The content of `PROGRESS`: how far a command is that the same command goes on with if it is stopped."""

    format_version: Literal[3] = 3
    """3: one for all commands."""
    by: str
    """The command, such as `knn`."""
    of: dict[str, Any]
    """Its inputs and settings by their names in messages, as JSON has them: with others it does not go on."""
    facts: dict[str, Any] = Field(default_factory=dict)
    """How far it is."""

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read what is in a workplace; refused if it is damaged, or of another version."""
        path, hint = folder / PROGRESS, f"remove {folder} to start anew"
        found = read_manifest(path, cls, 3, hint)
        if not found.checksum:
            raise MexmaError(f"{path} is damaged: it has no checksum", hint)
        return found

    def differences(self, now: Unfinished) -> dict[str, str]:
        """The difference in command, or those in inputs and settings, as `differences` says them."""
        return differences({"command": self.by}, {"command": now.by}) or differences(self.of, now.of)

    def begun_in(self, folder: Path) -> Self | None:
        """The entry of an earlier run of the same in a workplace; None where there is none. One of another
        run is refused."""
        if not (folder / PROGRESS).is_file():
            return None
        found = self.read(folder)
        if differing := found.differences(self):
            raise another_run(folder, differing)
        return found

    def left_in(self, folder: Path) -> Self | None:
        """The entry of an earlier run of the same in a workplace of `mexma run`; None where it begins anew:
        there is no entry, or one of what has changed since, or a damaged one."""
        try:
            found = self.read(folder)
        except MexmaError:
            return None
        return None if found.differences(self) else found

    def enter(self, folder: Path, **facts: Any) -> Self:
        """Write it to a workplace, with more facts that JSON can hold, and return it with them."""
        new = self.sealed(facts=self.facts | facts)
        write_json_atomic(folder / PROGRESS, new.model_dump(mode="json"))
        return new


@contextmanager
def until_done(folder: Path, has_begun: Callable[[], bool]) -> Iterator[None]:
    """Leave the entry in a workplace if the block fails and there `has_begun` to be something to go on with;
    else it goes, and the workplace with it."""
    kept = False
    try:
        yield
    except BaseException:
        if kept := has_begun():
            log.info("what was made so far is kept in %s; the same command goes on there", folder)
        raise
    finally:
        if not kept:
            remove(folder / PROGRESS)


def another_run(folder: Path, differing: Mapping[str, str]) -> MexmaError:
    """The error where a workplace is of another run, by its `differences`."""
    return MexmaError(
        f"{folder} is the beginning of another run: {'; '.join(differing.values())}",
        f"give the settings of that run to go on with it, or remove {folder} to start anew",
    )


def differences(
    there: Mapping[str, Any], now: Mapping[str, Any], places: tuple[str, str] = ("there", "now")
) -> dict[str, str]:
    """Say which inputs and settings differ, by their names; `places` says where either was found."""
    both = {name: (there.get(name), now.get(name)) for name in {**there, **now}}
    return {
        name: f"the {name} is another one, or has changed"
        if all(_CHECKSUM.fullmatch(str(value)) for value in values)
        else f"{name}: {_said(values[0])} {places[0]}, {_said(values[1])} {places[1]}"
        for name, values in both.items()
        if values[0] != values[1]
    }


def _said(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value in ("", None) else str(value)


def checksum_file(path: Path) -> str:
    """xxh3_128 of a file, in hex."""
    digest = xxhash.xxh3_128()
    with path.open("rb", buffering=0) as file:
        while block := file.read(1 << 18):  # it stays in the processor's cache
            digest.update(block)
    return digest.hexdigest()


def checksum_again(path: Path) -> str:
    """The `checksum_file` of a file that is asked for often: read again only if it was written to
    meanwhile."""
    info = path.stat()
    return _checksum(path, (info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns))


@lru_cache(maxsize=64)
def _checksum(path: Path, state: tuple[int, ...]) -> str:
    return checksum_file(path)


_SORTED = json.JSONEncoder(ensure_ascii=False, sort_keys=True).encode


def fingerprint(settings: Any) -> str:
    """xxh3_128 of any JSON-like settings, in hex; the order of keys does not matter."""
    text = _SORTED(settings)
    return xxhash.xxh3_128_hexdigest(text.encode("utf-8", "backslashreplace"))  # as in write_json_atomic


def commit(*finals: Path, own: Names | None = None, made: Path | None = None) -> None:
    """Give what was made in workplaces its final names: all of it or, after an error, none.

    Files have to be on the disk already. What had the names before goes with the workplaces; of folders that
    are replaced, `own` is as for `check_own`. In a block of `together`, it happens at its end, with all else
    that is made there. `made` is where the only one was made, if not `in_work`.
    """
    finals = tuple(map(behind_link, finals))
    if own is not None:
        for final in finals:
            check_own(final, own)
    if made is None and finals and (group := _group_of(finals[0])):
        group.finals.extend(finals)
        return
    places = [made] if made else list(map(in_work, finals))
    found = [place.stat() for place in places]
    try:
        for final, place in zip(finals, places, strict=True):
            for folder, _, _ in os.walk(place):
                fsync_folder(Path(folder))  # else a power cut can bring back what was removed in it
            _take_name(place, final)
        for parent in {final.parent for final in finals}:
            fsync_folder(parent)
    except BaseException:
        for final, place, new in zip(finals, places, found, strict=True):
            if final.exists() and os.path.samestat(final.stat(), new):
                if place.exists():
                    _take_name(place, final)
                else:
                    try:
                        final.rename(place)
                    except OSError:
                        remove(final)  # which had not been there
        raise


def _take_name(new: Path, final: Path) -> None:
    """Rename `new`; what has the name `final` gets the name of `new`."""
    if not os.path.lexists(final):
        new.rename(final)
    elif not _exchange(new, final):
        before = new.with_name(_BEFORE)
        try:
            os.link(final, before)  # a file: its name is never missing
        except OSError:
            final.rename(before)
        try:
            new.replace(final)
        except OSError:
            before.replace(final)
            raise
        before.rename(new)


def _exchange(one: Path, other: Path) -> bool:
    """Swap two names in a single step, so that neither is ever missing; False if the system cannot."""
    try:
        rename = ctypes.CDLL(None).renameat2
    except AttributeError:
        return False
    here, swap = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    return bool(rename(here, os.fsencode(one), here, os.fsencode(other), swap) == 0)


def hold(descriptor: int) -> bool:
    """Hold an open file or folder until it is closed; False on a file system that has no locks. A
    BlockingIOError says that another process holds it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        return False
    return True


def is_held(folder: Path) -> bool | None:
    """Whether a process holds a folder as its only writer; None where the file system has no locks."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        return False if hold(descriptor) else None
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)


@contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Hold a folder against a second writer for as long as the block runs, where the file system has locks;
    refused where another process writes there."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            if not hold(descriptor):
                log.warning("%s: no locks here, so see that nothing else writes there", folder)
        except BlockingIOError:
            raise MexmaError(
                f"{folder}: another process is writing there", "wait for it, or end it first"
            ) from None
        if not (folder.exists() and os.path.samestat(os.fstat(descriptor), folder.stat())):
            raise MexmaError(
                f"{folder}: another process has just finished there", "look at what it made, then try again"
            )
        yield
    finally:
        os.close(descriptor)


@contextmanager
def temporary_space() -> Iterator[None]:
    """Turn "disk full" while writing temporary files into a message for the user.

    A message that the disk of an output is full is replaced, too: nothing of a temporary file is kept, and
    the space is needed in another folder.
    """
    try:
        yield
    except (OSError, MexmaError) as error:
        full = error.__cause__ if isinstance(error, MexmaError) else error
        if not isinstance(full, OSError) or full.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise MexmaError(
            f"no space left for temporary files in {tempfile.gettempdir()}",
            "free some space there, or name a folder on another disk: TMPDIR=FOLDER mexma ...",
        ) from full
