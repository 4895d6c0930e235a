"""The compressions of text files, in one list: their names, endings, first bytes and readers."""

from __future__ import annotations

import bz2
import lzma
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Compression:
    """A compression.

    Attributes:
        name: As xopen calls it, and as file names end.
        magic: A file begins with one of these.
        check: The program that checks a file.
        decompressor: Makes a decompressor of one frame; None where xopen reads.
    """

    name: str
    magic: tuple[bytes, ...]
    check: str
    decompressor: Callable[[], Any] | None = None

    @property
    def ending(self) -> str:
        """Of file names, with the dot."""
        return f".{self.name}"


def _zst() -> Any:
    import zstandard

    return zstandard.ZstdDecompressor().decompressobj()


# pzstd puts a frame to be skipped, with the length, before each frame of its own.
_ZST_MAGIC = (b"\x28\xb5\x2f\xfd", b"\x50\x2a\x4d\x18")
COMPRESSIONS = (
    Compression("gz", (b"\x1f\x8b",), "gzip -t"),
    Compression("xz", (b"\xfd7zXZ\x00",), "xz -t", lzma.LZMADecompressor),
    Compression("zst", _ZST_MAGIC, "zstd -t", _zst),
    Compression("bz2", (b"BZh",), "bzip2 -t", bz2.BZ2Decompressor),
)
ENDINGS = tuple(compression.ending for compression in COMPRESSIONS)


def named(name: str) -> Compression | None:
    """The compression that a file's name says; None if it says none."""
    return next((found for found in COMPRESSIONS if name.endswith(found.ending)), None)


def found_in(start: bytes) -> Compression | None:
    """The compression of a file by its first bytes (eight are enough); None for any other file."""
    return next((found for found in COMPRESSIONS if start.startswith(found.magic)), None)


def split_ending(name: str) -> tuple[str, str]:
    """A file's name without the ending of its compression, and that ending: "" if it is not compressed."""
    ending = found.ending if (found := named(name)) else ""
    return name.removesuffix(ending), ending


def plain_name(name: str) -> str:
    """A file's name without the ending of its compression."""
    return split_ending(name)[0]


def plain_or_compressed(path: Path) -> Path | None:
    """The file of that name, or else a compressed one; None if there is neither."""
    there = (path.with_name(path.name + ending) for ending in ("", *ENDINGS))
    return next((file for file in there if file.is_file()), None)
