"""Documents in WARC files (ISO 28500), as crawlers write them: pages with what HTTP did to them, and WET."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, cast

from mexma_cli.errors import MexmaError, require
from mexma_cli.settings.stages import FileKind
from mexma_cli.text.lines import label_of, read_pieces
from mexma_cli.text.pages import unchunked, unpacked

_HEADERS = 64 << 10
"""Bytes of the longest headers of HTTP."""
_BLANK = re.compile(rb"\r?\n\r?\n")
_FOLDED = re.compile(r"\r?\n[ \t]+")
"""The end of a line of headers that goes on in the next line."""
_STATUS = re.compile(r"[A-Z]+(?:/[\d.]+)?\s+(\d{3})\b")
_CHARSET = re.compile(r";\s*charset\s*=\s*[\"']?\s*([^\s\"';,]+)", re.IGNORECASE)
_KINDS: dict[str, FileKind] = {"text/html": "html", "application/xhtml+xml": "html", "text/plain": "text"}
_KINDS["application/vnd.wap.xhtml+xml"] = "html"
_NAMES = {name.lower(): name for name in (b"WARC-Type", b"Content-Length")}
"""The headers of records that fastwarc knows only as they are written here."""
_NAME = re.compile(rb"^(?:" + b"|".join(_NAMES) + rb")(?=[ \t]*:)", re.IGNORECASE | re.MULTILINE)
_TYPES_PASSED_OVER = ("request", "warcinfo")
"""Records that nobody expects a document in."""


class Page(NamedTuple):
    """A document of a WARC file: kind, address, bytes (None if there are too many), stated encoding."""

    kind: FileKind
    name: str
    content: bytes | None
    charset: str | None


class _Message(NamedTuple):
    """A response of HTTP."""

    status: int | None
    headers: dict[str, str]
    body: bytes


def read_pages(path: Path, longest: int, error_pages: bool, passed_over: Counter[str]) -> Iterator[Page]:
    """The texts and HTML pages in responses, resources and conversions (WET), in their order; pages of at
    most `longest` bytes, those with another status than success only if `error_pages` are wanted.
    `passed_over` counts the other records, by reason. A file that is damaged, or cut short, is refused."""
    require("fastwarc", "web", "WARC")
    from fastwarc.warc import ArchiveIterator

    where = label_of(path)
    # Lines of headers may end without a carriage return, as in ClueWeb09.
    stream = cast(Any, _Stream(_with_usual_names(read_pieces(path, where))))
    records = ArchiveIterator(stream, parse_http=False, quirks_mode=True)
    while True:
        try:
            record = next(records, None)
            if record is None:
                return
            block = record.reader.read(longest + _HEADERS)
        except OSError as error:
            raise MexmaError(f"{where} is damaged or no WARC: {error}") from None
        name = str(record.headers.get("WARC-Target-URI") or record.record_id)
        if name.startswith("<") and name.endswith(">"):  # as WARC 1.0 and wget write it
            name = name[1:-1]
        if len(block) < min(record.content_length, longest + _HEADERS):
            raise MexmaError(f"{where} is cut short, in {name}", "fetch it again")
        of = str(record.record_type).rpartition(".")[2]
        if of not in ("response", "resource", "conversion"):
            if of not in _TYPES_PASSED_OVER:
                passed_over[f"{of} records"] += 1
            continue
        own = record.headers.get("Content-Type") or ""
        identified = record.headers.get("WARC-Identified-Payload-Type") or ""
        found = _page(name, block, (own, identified), longest, error_pages)
        if isinstance(found, str):
            passed_over[found] += 1
        else:
            yield found


def _page(name: str, block: bytes, types: tuple[str, str], longest: int, error_pages: bool) -> Page | str:
    """The page in a record, or the reason why the record is passed over."""
    own, identified = types
    status, headers, body = _Message(None, {}, block)
    if own.lower().startswith("application/http") or (not own and block.startswith(b"HTTP/")):
        status, headers, body = _message(block)
        own = headers.get("content-type", "")
    if status is not None and not (200 <= status < 300 or error_pages):
        return f"responses with HTTP status {status}"
    charset = _CHARSET.search(own)
    type_ = (re.split("[;,]", own)[0].strip() or identified.strip()).lower()
    if not type_ or type_ in _KINDS:
        if "chunked" in headers.get("transfer-encoding", "").lower():
            body = unchunked(body)
        whole = unpacked(body, headers.get("content-encoding", ""), longest + 1)
        if whole is None:
            return "bodies that cannot be unpacked"
        body = whole
    kind = _KINDS.get(type_ or ("text/html" if body.lstrip()[:1] == b"<" else ""))
    if kind is None:
        return "neither HTML nor text, by their types"
    return Page(kind, name, None if len(body) > longest else body, charset[1] if charset else None)


def _message(block: bytes) -> _Message:
    """Status, headers (names in lower case, those that stand several times joined by commas) and body."""
    blank = _BLANK.search(block)
    head, body = (block[: blank.start()], block[blank.end() :]) if blank else (block, b"")
    first, *lines = _FOLDED.sub(" ", head.decode("latin-1")).splitlines()
    headers: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(":")
        name = name.strip().lower()
        headers[name] = f"{headers[name]},{value.strip()}" if name in headers else value.strip()
    status = _STATUS.match(first)
    return _Message(int(status[1]) if status else None, headers, body)


def _with_usual_names(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The pieces of a WARC file, with names of headers as fastwarc knows them if its first record has others:
    case is free in the standard, and Rust's crate `warc` writes small letters."""
    first = next(pieces, b"")
    head = _BLANK.split(first, maxsplit=1)[0]
    pieces = chain([first], pieces)
    if all(name in head for name in _NAMES.values()):
        yield from pieces
        return
    rest = b""
    for piece in pieces:
        lines, end, rest = (rest + piece).rpartition(b"\n")
        if end:
            yield _NAME.sub(lambda found: _NAMES[found[0].lower()], lines) + end
    if rest:
        yield rest


class _Stream:
    """Pieces of a file as fastwarc reads one."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces, self._piece, self._at, self._place = pieces, b"", 0, 0

    def read(self, size: int = -1) -> bytes:
        assert size >= 0
        if self._at == len(self._piece):
            self._piece, self._at = next(self._pieces, b""), 0
        found = self._piece[self._at : self._at + size]
        self._at += len(found)
        self._place += len(found)
        return found

    def tell(self) -> int:
        return self._place
