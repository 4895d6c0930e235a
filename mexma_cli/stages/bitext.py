"""Pairs to disk or to stdout."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import IO

from xopen import xopen

from mexma_cli.errors import MexmaError
from mexma_cli.formats.bitext import format_pairs
from mexma_cli.store.manifest import whole_file

_COMPRESSED = {".gz": "gz", ".xz": "xz", ".zst": "zst", ".bz2": "bz2"}


def check_output(path: Path | None) -> None:
    """Find out before the work that its result can be written.

    Raises:
        MexmaError: the folder is not there or is read-only, or the name is a folder's.
    """
    if path is None or str(path) == "-":
        return
    if path.is_dir():
        raise MexmaError(f"{path} is a folder, not a file", "name a file for the output")
    if not path.parent.is_dir():
        raise MexmaError(f"{path}: there is no folder {path.parent}", f"make it: mkdir -p {path.parent}")
    if not os.access(path if path.exists() and not path.is_file() else path.parent, os.W_OK):
        raise MexmaError(f"{path}: not allowed to write there", "name another output")


def write_pairs(path: Path | None, pairs: Iterable[tuple[float, str, str]]) -> int:
    """Write pairs as `score TAB source TAB target`, compressed as the name says.

    Args:
        path: the file, which gets its name only when it is whole; None or "-" is stdout. A pipe or a device
            is written to as it is.
        pairs: (score, source, target).

    Returns:
        The number of sentences in which tabs or line breaks were replaced by spaces.
    """
    if path is None or str(path) == "-":
        out = sys.stdout.buffer
        replaced = _write(out, pairs)
        out.flush()
        return replaced
    if path.exists() and not path.is_file() and not path.is_dir():
        with path.open("wb") as out:
            return _write(out, pairs)
    with whole_file(path.resolve()) as out:  # a link stays one
        kind = _COMPRESSED.get(path.suffix)
        if kind is None:
            return _write(out, pairs)
        with xopen(out, "wb", format=kind, threads=0) as packed:
            return _write(packed, pairs)


def _write(out: IO[bytes], pairs: Iterable[tuple[float, str, str]]) -> int:
    replaced = 0
    for line, changed in format_pairs(pairs):
        out.write(line.encode("utf-8"))
        replaced += changed
    return replaced
