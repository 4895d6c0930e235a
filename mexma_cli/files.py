"""Files on disk: written whole or not at all, manifests, checksums, and one writer at a time.

A file is written aside, flushed to the disk and renamed, so that nothing half-written is ever found under
its final name. Manifests hold no time and no host, so equal runs give equal bytes.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import glob
import json
import logging
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, TypeVar

import xxhash
from pydantic import BaseModel, ValidationError

from mexma_cli.errors import MexmaError

log = logging.getLogger(__name__)

Model = TypeVar("Model", bound=BaseModel)

MANIFEST = "manifest.json"
"""In a finished store or folder of prepared pairs; written last."""
STORES = {".emb": "embeddings", ".knn": "neighbours"}
"""The ending of a store's folder, and the kind that its manifest states."""
_NO_SPACE = {errno.ENOSPC: "no space left on the disk", errno.EDQUOT: "the disk quota is used up"}
_NO_LOCKS = {errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK, errno.ENOSYS}


def behind_link(path: Path) -> Path:
    """The path itself, or the file that a link leads to: writing there leaves the link a link."""
    return path.resolve() if path.is_symlink() else path


def make_parent(path: Path) -> None:
    """Make the folder of an output if it is missing, and check that it can be written to.

    Raises:
        MexmaError: It cannot, or it lies in a store; the message names the output or its folder.
    """
    check_outside_stores(path)
    folder = behind_link(path).parent
    hint = "name another output"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MexmaError(f"{folder}: the folder cannot be made: {error.strerror}", hint) from None
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise MexmaError(f"{path} cannot be written: {error.strerror}", hint) from None


def check_outside_stores(path: Path) -> None:
    """Refuse an output in the folder of a store: any other file there makes the store unreadable.

    Raises:
        MexmaError: A folder around it is a store, or is named like one.
    """
    named = [folder for folder in path.parents if Path(folder.name.removesuffix(".partial")).suffix in STORES]
    around = [folder for folder in behind_link(path).absolute().parents if _is_store(folder)]
    for store in (*named, *around):
        raise MexmaError(
            f"{path} would lie in {store}, and a store holds nothing but its own files",
            f"name one beside it: {store.parent / path.name}",
        )


def _is_store(folder: Path) -> bool:
    try:
        return kind_of(folder) in STORES.values()
    except (MexmaError, OSError):  # no manifest that can be read
        return False


def kind_of(folder: Path) -> Any:
    """The kind that a folder's manifest states; None if it states none, or there is no manifest.

    Raises:
        MexmaError: The manifest is not JSON.
    """
    if not (folder / MANIFEST).is_file():
        return None
    content = read_json(folder / MANIFEST)
    return content.get("kind") if isinstance(content, dict) else None


def aside(path: Path) -> Path:
    """Where a file or folder is written before it gets its name."""
    path = behind_link(path)
    return path.with_name(f"{path.name}.tmp-{os.getpid()}")


def is_special(path: Path) -> bool:
    """Whether it is a pipe or a device."""
    return path.exists() and not path.is_file() and not path.is_dir()


@contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """A binary file that gets its name only when it is whole and on the disk.

    A link stays one. A pipe or a device is written to as it is, and so is stdout (``-``).

    Raises:
        MexmaError: The disk is full; nothing is left under either name.
    """
    if str(path) == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    if is_special(path):
        with no_space_as_message(path), path.open("wb") as file:
            yield file
        return
    final = path.resolve()
    part = aside(final)
    with no_space_as_message(path):
        try:
            with part.open("wb") as file:
                yield file
                fsync_file(file)
            part.replace(final)
            fsync_folder(final.parent)
        except BaseException:
            part.unlink(missing_ok=True)
            raise


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


def fsync_file(file: IO[bytes]) -> None:
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


def read_json(path: Path) -> Any:
    """Read JSON.

    Raises:
        MexmaError: The file is missing or is not JSON.
    """
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        raise MexmaError(f"{path}: no such file") from None
    except (ValueError, RecursionError) as error:  # also numbers of 5,000 digits, and 5,000 brackets
        raise MexmaError(f"{path} is damaged: not JSON ({error})") from None


def read_manifest(path: Path, model: type[Model], version: int) -> Model:
    """Read and check a manifest.

    Raises:
        MexmaError: Missing, damaged, or of a later format than `version`.
    """
    content = read_json(path)
    found = content.get("format_version") if isinstance(content, dict) else None
    if isinstance(found, int) and found > version:
        raise MexmaError(
            f"{path} has format version {found}, this program knows up to {version}",
            "install a newer mexma: pip install -U mexma",
        )
    try:
        return model.model_validate(content)
    except ValidationError as error:
        problem = error.errors()[0]
        key = ".".join(str(part) for part in problem["loc"])
        raise MexmaError(f"{path} is damaged: `{key}`: {problem['msg']}") from None


def checksum_file(path: Path) -> str:
    """xxh3_128 of a file, in hex."""
    digest = xxhash.xxh3_128()
    with path.open("rb") as file:
        while block := file.read(4 << 20):
            digest.update(block)
    return digest.hexdigest()


def fingerprint(settings: Any) -> str:
    """xxh3_128 of any JSON-like settings, in hex; the order of keys does not matter."""
    text = json.dumps(settings, ensure_ascii=False, sort_keys=True)
    return xxhash.xxh3_128_hexdigest(text.encode("utf-8", "backslashreplace"))  # as in write_json_atomic


def commit_folder(part: Path, final: Path) -> None:
    """Give a finished folder its name, then remove the one that had it before. A link stays a link."""
    final = behind_link(final)
    for folder, _, _ in os.walk(part):
        fsync_folder(Path(folder))  # else a power cut can bring back what was removed in it
    old = replaced_name(final)
    if final.exists() and _exchange(part, final):
        part.replace(old)
    else:
        if final.exists():
            final.replace(old)
        try:
            part.replace(final)
        except OSError:
            if old.exists():
                old.replace(final)
            raise
    fsync_folder(final.parent)
    remove_replaced(final)


def replaced_name(final: Path) -> Path:
    """The name that a file or folder gets before it is removed: one that no user gives to a copy."""
    number = os.getpid()
    while os.path.lexists(name := final.with_name(f"{final.name}.replaced-{number}")):
        number += 1  # in a container a killed run may have had the same one
    return name


def replaced(final: Path) -> list[Path]:
    """What was replaced under this name and is not removed yet, also by killed runs."""
    return _of_processes(final, "replaced")


def left_aside(final: Path) -> list[Path]:
    """What is being written `aside` for this name, or was when a run was killed."""
    return _of_processes(final, "tmp")


def _of_processes(final: Path, what: str) -> list[Path]:
    final = behind_link(final)
    ours = re.compile(re.escape(f"{final.name}.{what}-") + "[0-9]+")
    there = final.parent.glob(f"{glob.escape(final.name)}.{what}-*")
    return [path for path in there if ours.fullmatch(path.name)]


def remove_replaced(final: Path) -> None:
    """Remove what was replaced under this name."""
    for gone in replaced(final):
        if gone.is_dir() and not gone.is_symlink():
            shutil.rmtree(gone)
        else:
            gone.unlink()


def _exchange(one: Path, other: Path) -> bool:
    """Swap two names in a single step, so that neither is ever missing; False if the system cannot."""
    try:
        rename = ctypes.CDLL(None).renameat2
    except AttributeError:
        return False
    here, swap = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    return bool(rename(here, os.fsencode(one), here, os.fsencode(other), swap) == 0)


def hold(descriptor: int) -> bool:
    """Hold an open file or folder until it is closed; False on a file system that has no locks.

    Raises:
        BlockingIOError: Another process holds it.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        return False
    return True


@contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Hold a folder against a second writer for as long as the block runs, where the file system has locks.

    Raises:
        MexmaError: Another process writes there.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            if not hold(descriptor):
                log.warning("warning: %s: no locks here, so see that nothing else writes there", folder)
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
