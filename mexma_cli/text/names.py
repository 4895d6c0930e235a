"""What files are called, in messages and on the disk."""

from __future__ import annotations

from pathlib import Path

PACKED = (".gz", ".xz", ".zst", ".bz2")
"""Endings of text that is packed."""


def label_of(path: object) -> str:
    """The name of an input in messages; `-` is stdin."""
    return "stdin" if str(path) == "-" else str(path)


def unpacked(name: str) -> str:
    """A file's name without that of its packing."""
    for ending in PACKED:
        name = name.removesuffix(ending)
    return name


def plain_or_packed(path: Path) -> Path | None:
    """The file of that name, or else a packed one; None if there is neither."""
    there = (path.with_name(path.name + ending) for ending in ("", *PACKED))
    return next((file for file in there if file.is_file()), None)
