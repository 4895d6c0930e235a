"""Lines of text files: plain, gz, bz2, xz, zst, in a zip or stdin, strictly UTF-8, split at ``\\n`` only
(at ``\\r`` in a text that has no other line ends).

Line numbers are what aligns files with each other, so a line is never dropped or joined here: an empty
line is a line. Line numbers and byte positions in messages count from 1.
"""

from __future__ import annotations

import io
import logging
import os
import re
import shlex
import shutil
import stat
import struct
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple, cast

import xxhash

from mexma_cli.errors import MexmaError
from mexma_cli.files import refuse_pipe, temporary_space
from mexma_cli.text.amounts import counted
from mexma_cli.text.characters import INVISIBLE
from mexma_cli.text.compression import compression_named, decompressed, found_in
from mexma_cli.text.kinds import sentences_only
from mexma_cli.text.normalise import normal_form
from mexma_cli.text.pages import in_utf8

OTHER_FORMATS = frozenset({
    ".7z", ".arrow", ".br", ".css", ".csv", ".db", ".doc", ".docx", ".emb", ".epub", ".feather", ".gif",
    ".h5", ".hdf5", ".html", ".ico", ".jpeg", ".jpg", ".js", ".json", ".knn", ".lz4", ".lzma", ".mo",
    ".mp3", ".mp4", ".mqxliff", ".npy", ".npz", ".ods", ".odt", ".ogg", ".parquet", ".pdf", ".pickle",
    ".pkl", ".png", ".po", ".pot", ".ppt", ".pptx", ".pt", ".rar", ".rtf", ".safetensors", ".sdlxliff",
    ".sqlite", ".svg", ".tar", ".tbx", ".tgz", ".ttf", ".wav", ".webm", ".webp", ".woff", ".woff2", ".xlf",
    ".xliff", ".xls", ".xlsx", ".xml", ".zip",
})  # fmt: skip
"""Endings of files that are neither text nor raw vectors: what is named so is opened by other programs."""
LINE_LIMIT = 1 << 20
"""Longest line in bytes; a file with a longer one is no list of sentences."""
_BLOCK = 4 << 20
_BOM = b"\xef\xbb\xbf"
_HINT = (
    "--encoding states a text's encoding, such as windows-1252 (Western Europe), windows-1250 (Central "
    "Europe), windows-1251 (Cyrillic) or gb18030 (Chinese): look at the text then; vectors are read by "
    "`mexma convert`"
)
_WITHOUT_LINE_FEED = 16 << 20
_LONGEST = 64 << 20
"""Longest line whose length is counted for the message."""
_ZIP = b"PK\x03\x04"
_NO_TEXTS = {
    b"%PDF-": "a PDF",
    b"{\\rtf": "RTF",
    b"\xd0\xcf\x11\xe0": "a document of an office program",
    b"7z\xbc\xaf": "a 7z archive",
    b"Rar!\x1a": "a RAR archive",
}
# What zipfile raises for damaged archives.
_BAD_ZIP = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, ValueError, struct.error)
_BLANK = re.compile(f"[{INVISIBLE}]*")


def label_of(path: object) -> str:
    """The name of an input in messages; `-` is stdin."""
    return "stdin" if str(path) == "-" else str(path)


def document_id(name: str) -> str:
    """A file's name, or an id that was given, as the id of a document.

    It is in NFC, so that a name is the same on every system, and what is no Unicode is written as an escape.
    """
    return normal_form("NFC", name.encode("utf-8", "backslashreplace").decode())


log = logging.getLogger(__name__)

_BEGINNING = 1 << 16
"""Bytes of a text that say whether its lines are sentences."""
_FEW = 20
"""Fewer lines than these say nothing about it."""
_NARROWEST, _WORD = 30, 20
"""Width of a text that may be wrapped, at least; characters of a word, at most, where there are spaces."""


def reading_order(path: str | Path) -> tuple[Any, ...]:
    """The key that sorts files of documents as people count them: 2 before 10, in each part of a path; names
    that differ in nothing else (2, 02) as text."""
    parts = str(path).split("/")
    return [
        [int(run) if run.isdecimal() else run for run in re.split(r"(\d+)", part)] for part in parts
    ], parts


@dataclass(frozen=True)
class Member:
    """A file in a zip, which is read without unpacking it to the disk."""

    archive: Path
    name: str

    def __str__(self) -> str:
        return f"{self.archive}:{self.name}"


@dataclass(frozen=True)
class FileScan:
    """The result of one pass over a file.

    Attributes:
        path: The file.
        lines: Number of lines; the last one needs no line end.
        tabs: Tabs in all lines; a file of sentence pairs has one or more in each.
        bytes: Size of the text in bytes, uncompressed.
        checksum: xxh3_128 of the uncompressed bytes, in hex.
        label: The file's name for messages and manifests.
        broken: What its first lines have, where these are no sentences (see `broken_lines`).
    """

    path: Path | Member
    lines: int
    tabs: int
    bytes: int
    checksum: str
    label: str
    broken: str = ""


def scan(path: str | Path | Member, label: str | None = None, any_kind: bool = False) -> FileScan:
    """Read a file once, and check that it can be read as lines of text later. Refused, with file, line and
    byte: a missing file, a folder, JSONL, TMX, HTML and WARC, no lines, damaged compression, not UTF-8, NUL
    bytes, and a line above `LINE_LIMIT`.

    Args:
        path: A regular file, plain or compressed, or one in a zip.
        label: Name for messages where `path` is a temporary copy.
        any_kind: Its lines may be other things than sentences (see `kinds.sentences_only`).
    """
    where = label or str(path)
    digest, lines, tabs, size, last, broken = xxhash.xxh3_128(), 0, 0, 0, b"", ""
    pieces = read_pieces(path, where)
    for block in _checked_blocks(pieces if any_kind else sentences_only(pieces, where), where, digest):
        lines, tabs, last = lines + block.count(b"\n"), tabs + block.count(b"\t"), block[-1:]
        broken = broken if size else broken_lines(block)
        size += len(block)
    lines += last not in (b"", b"\n")
    if lines == 0:
        raise MexmaError(f"{where} has no lines", "give a text file with one sentence a line")
    source = path if isinstance(path, Member) else Path(path)
    return FileScan(source, lines, tabs, size, digest.hexdigest(), where, broken)


def broken_lines(start: bytes) -> str:
    """Say what the lines of a text's beginning have in common with sentences broken at a width; empty if
    they are like sentences, or few.

    Many begin in lower case, and some in capitals. Or many are so long that the next line's first word would
    be beyond the width, which one in twenty exceeds: at most 12 % of the sentences of the Bible and of
    NTREX-128 are, in any language.
    """
    lines = [line.strip() for line in start[:_BEGINNING].decode("utf-8", "ignore").split("\n")[:-1]]
    filled = list(filter(None, lines))
    if len(filled) < _FEW:
        return ""
    width = sorted(map(len, filled))[int(0.95 * len(filled))]
    words = [(line, after.split(maxsplit=1)[0]) for line, after in pairwise(lines) if line and after]
    full = sum(len(line) + 1 + (len(word) if len(word) <= _WORD else 1) > width for line, word in words)
    lower, upper = (sum(map(case, (line[0] for line in filled))) for case in (str.islower, str.isupper))
    if (share := lower / len(filled)) > 0.3 and upper > lower / 5:
        what = "begin in lower case"
    elif width >= _NARROWEST and (share := full / max(1, len(words))) > 0.3:
        what = f"are as long as {width} characters allow"
    else:
        return ""
    return (
        f"{100 * share:.0f} % of its lines {what}, as where sentences are broken into lines of one width; "
        "`mexma split` with --document blank or file joins such lines"
    )


def read_lines(
    path: str | Path | Member, label: str | None = None, digest: Any = None, ours: bool = False
) -> Iterator[str]:
    """The lines of a file (``-``: stdin) without their line ends (see `with_line_feeds`). Refused is what
    `scan` refuses, but an empty file just gives no lines.

    All bytes on the way go into `digest`. A file of `ours`, which a command wrote, is in UTF-8 whatever the
    user states.
    """
    where = label or label_of(path)
    yield from lines_of(read_pieces(path, where), where, digest, ours)


def read_sentences(path: str | Path | Member) -> Iterator[str]:
    """The lines of a file with a sentence a line, as by `read_lines`; refused as by `kinds.sentences_only`,
    too."""
    where = label_of(path)
    yield from lines_of(sentences_only(read_pieces(path, where), where), where)


def lines_of(pieces: Iterable[bytes], where: str, digest: Any = None, ours: bool = False) -> Iterator[str]:
    """The lines of a text that comes in pieces, as by `read_lines`."""
    for block in _checked_blocks(pieces, where, digest, ours):
        text = block.decode("utf-8")
        rows = text.split("\n")
        if not rows[-1]:
            rows.pop()
        if "\r" in text:
            rows = [row.rstrip("\r") for row in rows]
        yield from rows


def read_again(text: FileScan) -> Iterator[str]:
    """The lines that `scan` found in a file; what was added behind them since then is left out. After the
    last one, a text is refused whose lines are not those that were scanned."""
    read, found = _Checksum(text.bytes), 0
    for found, line in enumerate(islice(read_lines(text.path, text.label, read), text.lines), 1):  # noqa: B007
        yield line
    if read.hexdigest() != text.checksum:
        now = f"{found:,} now" if found < text.lines else "other lines now"
        raise MexmaError(
            f"{text.label} changed while it was read: {counted(text.lines, 'line')} before, {now}",
            "run the same command again when the text changes no more",
        )


class _Checksum:
    """The checksum of the first `size` bytes of a text, as `scan` computes it; added lines do not count."""

    def __init__(self, size: int) -> None:
        self._digest, self._left, self._begun, self._last = xxhash.xxh3_128(), size, False, b"\n"

    def update(self, piece: bytes) -> None:
        if not self._begun and piece.startswith(_BOM):
            self._left += len(_BOM)  # counts in the checksum, and not in the text's size
        self._begun = True
        own, added = piece[: self._left], piece[self._left :]
        self._digest.update(own)
        self._left -= len(own)
        self._last = own[-1:] or self._last
        if b"\n" not in (self._last, added[:1]):
            self._digest.update(added)  # which makes the last line longer

    def hexdigest(self) -> str:
        return self._digest.hexdigest()


def read_latin_lines(path: Path) -> Iterator[str]:
    """The lines of a small file in Latin-1, where every byte is a letter."""
    text = b"".join(read_pieces(path, str(path))).decode("latin-1")
    yield from (line.removesuffix("\r") for line in text.removesuffix("\n").split("\n"))


class TextSize(NamedTuple):
    """Lines and uncompressed bytes of a text, `counted` or else estimated."""

    lines: int
    size: int
    counted: bool


def estimate_size(path: Path | Member, limit: int = 8 << 20) -> TextSize:
    """Estimate the size of a file's text from its beginning, `limit` bytes of text, which are counted in a
    file that has no more; for a compressed one to about a tenth. A file that is missing, a folder, or damaged
    is refused."""
    where = str(path)
    lines = size = position = 0  # position: bytes of the file that were read for `size` bytes of text
    last = b""
    with _opened(path, where) as file:
        for piece in _unpacked_pieces(file, where):
            if size >= limit:
                share = position / _size(path)
                return TextSize(round(lines / share), round(size / share), False)
            lines += piece.count(b"\n") or piece.count(b"\r")
            size, last = size + len(piece), piece[-1:]
            position = file.tell()
    return TextSize(lines + (last not in (b"", b"\n", b"\r")), size, True)


def _size(path: Path | Member) -> int:
    """Bytes of what `_opened` gives."""
    if isinstance(path, Member):
        with opened_zip(path.archive, str(path)) as archive:
            return archive.getinfo(path.name).file_size
    return path.stat().st_size


def is_blank(line: str) -> bool:
    """Whether there is nothing to be seen in a line: it is kept as a row, and never paired."""
    return _BLANK.fullmatch(line) is not None


def open_text(path: str | Path, mode: Literal["w", "a"] = "w") -> IO[str]:
    """Open a text file for writing or appending in UTF-8, compressed as its name says."""
    from xopen import xopen

    return xopen(os.fspath(path), mode, encoding="utf-8", newline="\n", threads=0)


@contextmanager
def spooled(path: str | Path) -> Iterator[Path]:
    """A regular file with the content of `path`: itself, or a temporary copy of stdin (``-``) or a pipe.

    Whoever needs to read an input twice reads the file that this gives.
    """
    source = Path(path)
    if str(path) != "-" and (not source.exists() or source.is_dir() or source.is_file()):
        yield source  # if something is wrong with it, `scan` says so
        return
    with tempfile.TemporaryDirectory(prefix="mexma-") as folder:
        copy = Path(folder) / "input"
        with temporary_space(), copy.open("wb") as target:
            if str(path) == "-":
                shutil.copyfileobj(sys.stdin.buffer, target, _BLOCK)
            else:
                with source.open("rb") as pipe:
                    shutil.copyfileobj(pipe, target, _BLOCK)
        yield copy


def _checked_blocks(
    pieces: Iterable[bytes], where: str, digest: Any = None, ours: bool = False
) -> Iterator[bytes]:
    """Blocks of whole lines that are UTF-8 and have neither NUL bytes nor a line above the limit."""
    before, rest, at_start = 0, b"", True  # before: lines before this block
    pieces = with_line_feeds(pieces if ours else in_utf8(pieces, where))
    for piece in pieces:
        if digest is not None:
            digest.update(piece)
        if at_start and piece.startswith(_BOM):
            piece = piece[len(_BOM) :]
        at_start = False
        cut = piece.rfind(b"\n") + 1
        if cut:
            block, rest = rest + piece[:cut], piece[cut:]
            _refuse_broken(block, where, before)
            yield block
            before += block.count(b"\n")
        else:
            rest += piece
        if len(rest) > LINE_LIMIT:
            if b"\0" in rest:
                raise _no_utf8(rest, rest.index(0), where, before)
            raise _too_long(where, before + 1, _length_to_line_end(rest, pieces))
    if rest:
        _refuse_broken(rest, where, before)
        yield rest


def with_line_feeds(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Pieces of a text, with ``\\n`` for ``\\r`` if all of its lines end with ``\\r``, as on old Macs.

    So is one without any ``\\n`` in its first 16 MiB, or at all.
    """
    pieces = iter(pieces)
    start: list[bytes] = []
    while sum(map(len, start)) < _WITHOUT_LINE_FEED and (piece := next(pieces, b"")):
        start.append(piece)
        if b"\n" in piece:
            yield from chain(start, pieces)
            return
    yield from (piece.replace(b"\r", b"\n") for piece in chain(start, pieces))


def read_pieces(path: str | Path | Member, where: str) -> Iterator[bytes]:
    """The uncompressed bytes of a file (``-``: stdin) in large pieces; one that is missing, a folder, or
    damaged is refused."""
    with _opened(path, where) as file:
        yield from _unpacked_pieces(file, where)


def _unpacked_pieces(file: io.BufferedReader, where: str) -> Iterator[bytes]:
    start = file.peek(8)[:8]
    if start.startswith(_ZIP):
        raise MexmaError(
            f"{where} is a zip archive, not a text file",
            "unpack it (of a .docx, .odt or .epub, save the text, of an .xlsx, CSV); in a recipe, `format: "
            "opus` reads zips with a file for each language",
        )
    for begins, kind in _NO_TEXTS.items():
        if start.startswith(begins):
            raise MexmaError(f"{where} is {kind}, not a text file", "save its text first, as UTF-8")
    wanted, found = compression_named(where), found_in(start)
    if wanted and wanted is not found and start:
        raise MexmaError(f"{where} is not {wanted.name} data, in spite of its name", "rename or repack it")
    if found is None:
        while piece := file.read1(_BLOCK):  # of a pipe, what is there
            yield piece
    else:
        yield from decompressed(file, found, where)


@contextmanager
def opened_zip(path: Path, where: str | None = None) -> Iterator[zipfile.ZipFile]:
    """A zip archive; refused, under the name `where`, if it is damaged, or lacks a member that the block asks
    for."""
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except (*_BAD_ZIP, KeyError) as error:
        raise MexmaError(
            f"{where or path} is damaged: {error}",
            f"fetch the archive again; `unzip -t {shlex.quote(str(path))}` checks it",
        ) from None


@contextmanager
def _opened(path: str | Path | Member, where: str) -> Iterator[io.BufferedReader]:
    if isinstance(path, Member):
        with opened_zip(path.archive, where) as archive:
            found = archive.getinfo(path.name)
            if found.flag_bits & 1:
                raise MexmaError(f"{where} is encrypted", "unpack the archive with its password")
            if found.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise MexmaError(f"{where} is not packed as usual in a zip (deflated)", "zip it anew")
            with archive.open(found) as member:
                yield io.BufferedReader(cast(io.RawIOBase, member))
        return
    if str(path) == "-":
        raw: Any = sys.stdin.buffer
        yield raw if hasattr(raw, "peek") else io.BufferedReader(raw)
        return
    try:
        _refuse_read_pipe(path)
        file = open(path, "rb")  # noqa: SIM115 - closed below; only opening it is guarded here
    except FileNotFoundError:
        raise MexmaError(f"{where}: no such file") from None
    except IsADirectoryError:
        raise MexmaError(
            f"{where} is a folder, not a text file", "`mexma split` makes a text of a folder of documents"
        ) from None
    except PermissionError:
        raise MexmaError(f"{where}: not allowed to read it") from None
    with file:
        yield file


_pipes: set[str] = set()
"""The unnamed pipes that this process has begun to read: `<(command)` of a shell, or /dev/stdin."""


def _refuse_read_pipe(path: str | Path) -> None:
    """Refuse an unnamed pipe that was opened before: what was read then would be missing."""
    if stat.S_ISFIFO(os.stat(path).st_mode) and "/pipe:[" in (pipe := os.path.realpath(path)):
        if pipe in _pipes:
            refuse_pipe(path)
        _pipes.add(pipe)


def _refuse_broken(block: bytes, where: str, before: int) -> None:
    """Refuse a block, with so many lines before it, that is not UTF-8, or has NUL bytes or a line above the
    limit."""
    try:
        if not block.isascii():
            block.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _no_utf8(block, error.start, where, before, error.reason) from None
    if b"\0" in block:
        raise _no_utf8(block, block.index(0), where, before)
    # A line above the limit leaves at least one window of half the limit without a line end.
    half = LINE_LIMIT // 2
    for at in range(0, len(block) - half + 1, half):
        if block.find(b"\n", at, at + half) < 0:
            start = block.rfind(b"\n", 0, at) + 1
            end = block.find(b"\n", at)
            length = (end if end >= 0 else len(block)) - start
            if length > LINE_LIMIT:
                raise _too_long(where, _position(block, at, before)[0], length)


def _no_utf8(block: bytes, at: int, where: str, before: int, reason: str = "") -> MexmaError:
    """The error for a byte of a block that no text has."""
    line, byte = _position(block, at, before)
    found = f"not UTF-8 (0x{block[at]:02X}, {reason})" if reason else "a NUL byte, which no text has"
    return MexmaError(f"{where}, line {line}, byte {byte}: {found}", _HINT)


def _position(block: bytes, at: int, before: int) -> tuple[int, int]:
    """Line, and byte in the line, both from 1, of an offset in a block after `before` lines."""
    return before + block.count(b"\n", 0, at) + 1, at - block.rfind(b"\n", 0, at)


def _length_to_line_end(start: bytes, pieces: Iterator[bytes]) -> int:
    length = len(start)
    for piece in pieces:
        end = piece.find(b"\n")
        if end >= 0:
            return length + end
        length += len(piece)
        if length > _LONGEST:
            break
    return length


def _too_long(where: str, line: int, length: int) -> MexmaError:
    said = f"{length:,}" if length <= _LONGEST else f"more than {_LONGEST:,}"
    return MexmaError(
        f"{where}, line {line}: {said} bytes in one line, the limit is {LINE_LIMIT:,}",
        "one sentence a line is expected: split the text into sentences first",
    )
