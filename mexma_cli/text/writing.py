"""Writing text files: whole or not at all, compressed as they are named, by one process at a time."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from xopen import xopen

from mexma_cli.errors import MexmaError
from mexma_cli.files import (
    aside,
    fsync_file,
    fsync_folder,
    hold,
    is_special,
    left_aside,
    make_parent,
    no_space_as_message,
    replaced_name,
)
from mexma_cli.text.compression import named

Chunk = tuple[tuple[str | bytes, ...], int]
"""Text, or bytes, for each of an output's files, and how many sentences had to be changed for it."""


def prepare_output(path: Path | None) -> None:
    """Find out before the work that its result can be written, and make the folder for it.

    Raises:
        MexmaError: the folder cannot be made or written to, or the name is a folder's.
    """
    if path is None or str(path) == "-":
        return
    if path.is_dir():
        raise MexmaError(f"{path} is a folder, not a file", "name a file for the output")
    if not is_special(path):
        make_parent(path)
    elif not os.access(path, os.W_OK):
        raise MexmaError(f"{path}: not allowed to write there", "name another output")


@contextmanager
def only_process(paths: Iterable[Path]) -> Iterator[None]:
    """Hold output files against other processes, from before the work until they are written.

    Beside each lies NAME.lock for as long; one that a killed process left does not matter.

    Raises:
        MexmaError: another process is about to write one of them.
    """
    with ExitStack() as stack:
        for final, path in sorted({path.resolve(): path for path in paths}.items()):
            if not is_special(path):
                stack.enter_context(_locked(final, path))
        yield


def write_chunks(paths: Sequence[Path], chunks: Iterable[Chunk]) -> int:
    """Write text into files that get their names, together, when all are whole and on the disk.

    Args:
        paths: one for each text of a chunk, compressed as they are named; none is stdout. A pipe or a device
            stays what it is, and so does a link.

    Returns:
        The sum of the chunks' counts.

    Raises:
        MexmaError: the disk is full; the files that had the names before are still there.
    """
    if not paths:
        changed = _write([sys.stdout.buffer], chunks)
        sys.stdout.buffer.flush()
        return changed
    if len(paths) == 1 and is_special(paths[0]):
        with no_space_as_message(paths[0]), paths[0].open("wb") as file, _compressed(file, paths[0]) as out:
            return _write([out], chunks)
    finals = [path.resolve() for path in paths]
    parts = [aside(path) for path in finals]
    with no_space_as_message(paths[0]):
        try:
            with ExitStack() as stack:
                files = [stack.enter_context(part.open("wb")) for part in parts]
                with ExitStack() as inner:
                    both = zip(files, finals, strict=True)
                    outs = [inner.enter_context(_compressed(file, final)) for file, final in both]
                    changed = _write(outs, chunks)
                for file in files:
                    fsync_file(file)
            _name(parts, finals)
        except BaseException:
            for part in parts:
                part.unlink(missing_ok=True)
            raise
    return changed


def _write(outs: Sequence[IO[bytes]], chunks: Iterable[Chunk]) -> int:
    total = 0
    for texts, changed in chunks:
        for out, text in zip(outs, texts, strict=True):
            out.write(text.encode("utf-8") if isinstance(text, str) else text)
        total += changed
    return total


@contextmanager
def _compressed(file: IO[bytes], path: Path) -> Iterator[IO[Any]]:
    compression = named(path.name)
    if compression is None:
        yield file
    else:
        with xopen(file, "wb", format=compression.name, threads=0) as compressed:
            yield compressed


def _name(parts: Sequence[Path], finals: Sequence[Path]) -> None:
    """Give finished files their names: all of them, or none."""
    before = {path: replaced_name(path) for path in finals if path.exists()}
    named: list[Path] = []
    try:
        if len(finals) > 1:
            for path, old in before.items():
                _keep(path, old)
        for part, path in zip(parts, finals, strict=True):
            part.replace(path)
            named.append(path)
    except BaseException:
        for path in named:
            path.unlink(missing_ok=True)
        for path, old in before.items():
            if old.exists():
                old.replace(path)
        raise
    finally:
        for old in before.values():
            old.unlink(missing_ok=True)
    for folder in {path.parent for path in finals}:
        fsync_folder(folder)


def _keep(path: Path, old: Path) -> None:
    """Give a file a second name, or another one where there are no links."""
    try:
        os.link(path, old)
    except OSError:
        path.replace(old)


@contextmanager
def _locked(final: Path, path: Path) -> Iterator[None]:
    """Hold `final`, where the `path` that was given leads."""
    lock = final.with_name(final.name + ".lock")
    while True:
        try:
            descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise MexmaError(f"{path} cannot be written: {error.strerror}", "name another output") from None
        try:
            held = hold(descriptor)
        except BlockingIOError:
            os.close(descriptor)
            raise MexmaError(
                f"{final}: another process is about to write it", "wait for it, or name another output"
            ) from None
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), os.stat(lock)):
                break
        os.close(descriptor)  # its holder removed it just now
    try:
        for stray in left_aside(final) if held else ():
            stray.unlink()  # of a killed process: whoever is alive and writes there has the lock
        yield
    finally:
        if not os.fstat(descriptor).st_size:  # else it is a file of the user's
            lock.unlink(missing_ok=True)
        os.close(descriptor)
