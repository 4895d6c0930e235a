"""The compressions of text files, in one list: their names, endings, first bytes and readers."""

from __future__ import annotations

import bz2
import io
import lzma
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any, cast

from mexma_cli.errors import MexmaError

BLOCK = 1 << 20
"""Bytes of text that are in memory at a time, however few packed ones they come from."""
_STEP = 1 << 10  # in four bytes zst has at most 128 KiB, so that a step gives at most 32 MiB
_AHEAD = 2 << 10
"""Bytes that a decompressor may take at a time: of gz they give at most 2 MiB."""
_XZ_MEMORY = 256 << 20  # `xz -9` takes 65 MiB to unpack
_RATIO, _SPARED = 100, 16 << 20
"""Text is not packed to less than a hundredth; the first bytes may be, as in a file of equal lines."""
_SPARED_ELSEWHERE = 1 << 20  # zst is quickly unpacked, and stores are packed so


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
        """The ending of file names, with the dot."""
        return f".{self.name}"


def _zst() -> Any:
    import zstandard

    return zstandard.ZstdDecompressor().decompressobj()


# pzstd puts a frame to be skipped, with the length, before each frame of its own.
_ZST_MAGIC = (b"\x28\xb5\x2f\xfd", b"\x50\x2a\x4d\x18")
ZST = Compression("zst", _ZST_MAGIC, "zstd -t", _zst)
COMPRESSIONS = (
    Compression("gz", (b"\x1f\x8b",), "gzip -t"),
    Compression("xz", (b"\xfd7zXZ\x00",), "xz -t", partial(lzma.LZMADecompressor, memlimit=_XZ_MEMORY)),
    ZST,
    Compression("bz2", (b"BZh",), "bzip2 -t", bz2.BZ2Decompressor),
)
ENDINGS = tuple(compression.ending for compression in COMPRESSIONS)


def compression_named(name: str) -> Compression | None:
    """The compression that a file's name says; None if it says none."""
    return next((found for found in COMPRESSIONS if name.endswith(found.ending)), None)


def found_in(start: bytes) -> Compression | None:
    """The compression of a file by its first bytes (eight are enough); None for any other file."""
    return next((found for found in COMPRESSIONS if start.startswith(found.magic)), None)


def split_ending(name: str) -> tuple[str, str]:
    """A file's name without the ending of its compression, and that ending: "" if it is not compressed."""
    ending = found.ending if (found := compression_named(name)) else ""
    return name.removesuffix(ending), ending


def plain_name(name: str) -> str:
    """A file's name without the ending of its compression."""
    return split_ending(name)[0]


def plain_or_compressed(path: Path) -> Path | None:
    """The file of that name, or else a compressed one; None if there is neither."""
    there = (path.with_name(path.name + ending) for ending in ("", *ENDINGS))
    return next((file for file in there if file.is_file()), None)


def decompressed(file: io.BufferedReader, compression: Compression, where: str) -> Iterator[bytes]:
    """The text of a compressed file in blocks of at most `BLOCK` bytes; one that is damaged or cut short, or
    that `check_ratio` refuses, is refused."""
    pieces = _gathered(_checked(file, compression, where))
    while True:
        try:
            piece = next(pieces, b"")
        except MexmaError:
            raise
        except Exception as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise  # the disk failed, not the compression
            raise MexmaError(
                f"{where} is damaged or cut short: {compression.name} decompression failed ({error})",
                f"fetch or make the file again; `{compression.check}` checks it",
            ) from None
        if not piece:
            return
        yield piece


def _gathered(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Small pieces put together, and large ones cut."""
    held: list[bytes] = []
    size = 0
    for piece in pieces:
        held.append(piece)
        size += len(piece)
        if size >= BLOCK:
            whole = b"".join(held)
            yield from (whole[at : at + BLOCK] for at in range(0, size, BLOCK))
            held, size = [], 0
    yield b"".join(held)


def check_ratio(size: int, packed: int, where: str, spared: int = _SPARED) -> None:
    """Refuse a text of `size` bytes that is packed into so few that it can be none: more than the `spared`
    bytes, and more than 100 a packed one."""
    if size > max(spared, _RATIO * packed):
        raise MexmaError(
            f"{where} is no text: over {size >> 20:,} MiB are packed into {packed:,} bytes",
            "if it is meant, unpack it first",
        )


class _Counted(io.RawIOBase):
    """A file, and how many bytes of it were read."""

    def __init__(self, file: io.BufferedReader) -> None:
        self._file, self.count = file, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        read = self._file.readinto1(memoryview(buffer)[:_AHEAD])
        self.count += read
        return read


def _checked(file: io.BufferedReader, compression: Compression, where: str) -> Iterator[bytes]:
    counted, size = _Counted(file), 0
    spared = _SPARED if compression is ZST else _SPARED_ELSEWHERE
    for piece in _unpacked(counted, compression):
        size += len(piece)
        check_ratio(size, counted.count, where, spared)
        yield piece


def _unpacked(file: io.RawIOBase, compression: Compression) -> Iterator[bytes]:
    """Decompress frame after frame.

    Unlike the libraries' own readers this notices a zst file that is cut short, and bytes after xz or bz2
    data that belong to no frame.
    """
    if compression.decompressor is None:
        from xopen import xopen

        with xopen(cast(IO[bytes], file), "rb", threads=0, format=compression.name) as unpacked:
            while piece := unpacked.read(BLOCK):
                yield piece
        return
    frame = None
    while packed := file.read(_STEP):
        # Zeros may fill a file up after a frame; none begins with one.
        while packed := packed if frame else packed.lstrip(b"\0"):
            frame = frame or compression.decompressor()
            yield from _steps(frame, packed)
            packed = frame.unused_data if frame.eof else b""
            if frame.eof:
                frame = None
    if frame is not None:
        raise EOFError("the file ends inside a frame")


def _steps(frame: Any, packed: bytes) -> Iterator[bytes]:
    """Decompress some bytes, step by step."""
    if not hasattr(frame, "needs_input"):  # zstandard's cannot be told how much it may give
        yield frame.decompress(packed)
        return
    yield frame.decompress(packed, BLOCK)
    while not (frame.eof or frame.needs_input):
        yield frame.decompress(b"", BLOCK)
