"""Kinds of files of documents, by their names, or by their first bytes where sentences are expected."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

from mexma_cli.errors import MexmaError
from mexma_cli.settings.stages import FileKind
from mexma_cli.text.compression import plain_name

KINDS: dict[str, FileKind] = {
    ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", ".tmx": "tmx",
    ".html": "html", ".htm": "html", ".xhtml": "html", ".warc": "warc", ".wet": "warc", ".wat": "warc",
}  # fmt: skip
"""Ending of a file's name, without that of its compression -> kind; all others are text."""
_HEAD = 1 << 16
"""Bytes of a file that tell its kind."""
_LINES = 10
_NOTES = rb"\s*(?:<!--.*?-->\s*)*"
_XML = rb"%s(?:<\?xml\s[^>]*\?>%s)?" % (_NOTES, _NOTES)
_BEGINS = {
    "tmx": rb"%s(?:<!DOCTYPE\s+tmx\b[^>]*>%s)?<tmx\b[^>]*>%s<\w" % (_XML, _NOTES, _NOTES),
    "html": rb"%s(?:<!DOCTYPE\s+html\b[^>]*>%s<\w|<html\b[^>]*>%s<\w)" % (_XML, _NOTES, _NOTES),
    "xml": rb"\s*<\?xml\s[^>]*\?>%s<[\w!]" % _NOTES,
    "parquet": rb"PAR1[\0-\x08\x0e-\x1f]",
    "warc": rb"WARC/\d\.\d\r?\n(?:[\w-]+:[^\n]*\n)*?WARC-Type:",
}
_KNOWN = {kind: re.compile(pattern, re.IGNORECASE | re.DOTALL) for kind, pattern in _BEGINS.items()}


def file_kind(path: Path) -> FileKind:
    """The kind of a file, by its name."""
    return KINDS.get(suffix_of(path), "text")


def suffix_of(path: Path) -> str:
    """The ending of a file's name without that of its compression, in lower case."""
    return Path(plain_name(path.name)).suffix.lower()


def sentences_only(pieces: Iterable[bytes], where: str) -> Iterator[bytes]:
    """The pieces of a text with a sentence a line, as they come; `where` is its name. Refused: JSONL, TMX,
    HTML and WARC by that name, and these and Parquet by the first bytes."""
    pieces = iter(pieces)
    first = next(pieces, b"")
    kind: str = file_kind(Path(where))
    if kind == "text":
        kind = begins_as(first)
    if kind != "text":
        hints = []
        if kind not in ("xml", "parquet"):
            hints.append(f"`mexma split {shlex.quote(where)} --lang CODE -o sentences.txt` makes one of it")
        if kind in ("jsonl", "tmx", "parquet"):
            hints.append("if it is a bitext of its own, give it as one file where pairs are read")
        raise MexmaError(
            f"{where} is {kind.upper()}, not a text with one sentence a line",
            "; ".join(hints) or "its text has to be taken out of it first",
        )
    yield from chain([first], pieces)


def begins_as(start: bytes) -> str:
    """The kind of a file by its first bytes: one of `KINDS`, text, xml or parquet."""
    head, whole = start[:_HEAD].removeprefix(b"\xef\xbb\xbf"), len(start) <= _HEAD
    for kind, begins in _KNOWN.items():
        if begins.match(head):
            return kind
    rows = head.split(b"\n")
    rows = [row for row in (rows if whole else rows[:-1])[:_LINES] if row.strip()]
    return "jsonl" if rows and all(map(_is_object, rows)) else "text"


def _is_object(row: bytes) -> bool:
    if not row.lstrip().startswith(b"{"):
        return False
    try:
        found = json.loads(row)
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict) and any(isinstance(value, str) for value in found.values())
