"""Writing text files: whole or not at all, compressed as they are named, by one process at a time."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

from mexma_cli import files
from mexma_cli.errors import MexmaError
from mexma_cli.text.compression import compression_named

Chunk = tuple[tuple[str | bytes, ...], int]
"""Text, or bytes, for each of an output's files, and how many sentences had to be changed for it."""

_held: set[Path] = set()
"""Outputs that this process holds by `only_process`; it may enter that again."""


def prepare_output(path: Path | None) -> None:
    """Find out before the work that its result can be written; its folder is made when it is. Refused: a
    folder's name, and a folder that cannot be made or written to."""
    if path is None or str(path) == "-":
        return
    if path.is_dir():
        raise MexmaError(f"{path} is a folder, not a file", "name a file for the output")
    if not files.is_special(path):
        files.check_parent(path)
    elif not os.access(path, os.W_OK):
        raise MexmaError(f"{path}: not allowed to write there", "name another output")


@contextmanager
def only_process(paths: Iterable[Path]) -> Iterator[None]:
    """Hold the workplaces of output files, from before the work until they are written."""
    new = {files.resolved(path) for path in paths if not files.is_special(path)} - _held
    with ExitStack() as stack:
        for path in sorted(new):
            stack.enter_context(files.workplace(path))
        _held.update(new)
        stack.callback(_held.difference_update, new)
        yield


def write_chunks(paths: Sequence[Path], chunks: Iterable[Chunk]) -> int:
    """Write text into files that get their names, together, when all are whole and on the disk; returns the
    sum of the chunks' counts. If the disk is full, the files that had the names before are still there.

    There is a path for each text of a chunk, compressed as it is named; none is stdout. A pipe or a device
    stays what it is, and so does a link.
    """
    if not paths:
        changed = _write([sys.stdout.buffer], chunks)
        sys.stdout.buffer.flush()
        return changed
    whole = [path for path in paths if not files.is_special(path)]
    with files.no_space_as_message(paths[0]), only_process(paths), ExitStack() as stack:
        places = {path: files.in_work(path) if path in whole else path for path in paths}
        opened = {path: stack.enter_context(place.open("wb")) for path, place in places.items()}
        with ExitStack() as inner:
            outs = [inner.enter_context(_compressed(file, path)) for path, file in opened.items()]
            changed = _write(outs, chunks)
        for path in whole:
            files.fsync_file(opened[path])
        files.commit(*whole)
    return changed


@contextmanager
def text_file(path: Path) -> Iterator[IO[bytes]]:
    """A file for text that gets its name when it is whole, compressed as it is named; as `whole_file`."""
    with files.whole_file(path) as file, _compressed(file, path) as out:
        yield out


def _write(outs: Sequence[IO[bytes]], chunks: Iterable[Chunk]) -> int:
    total = 0
    for texts, changed in chunks:
        for out, text in zip(outs, texts, strict=True):
            out.write(text.encode("utf-8") if isinstance(text, str) else text)
        total += changed
    return total


@contextmanager
def _compressed(file: IO[bytes], path: Path) -> Iterator[IO[Any]]:
    compression = compression_named(path.name)
    if compression is None:
        yield file
    else:
        from xopen import xopen

        with xopen(file, "wb", format=compression.name, threads=0) as compressed:
            yield compressed
