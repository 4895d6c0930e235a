"""Raw documents in files of many kinds: which files, and the documents in them, in chunks."""

from __future__ import annotations

import codecs
import glob
import logging
import os
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import xxhash

from mexma_cli.errors import MexmaError, require
from mexma_cli.formats.moses import aligned_files
from mexma_cli.languages import UNSTATED, known, resolve, spellings
from mexma_cli.settings.stages import FileKind, SplitSettings
from mexma_cli.stages.split.warc import read_pages
from mexma_cli.store.embeddings import EmbeddingStore
from mexma_cli.text.compression import plain_name
from mexma_cli.text.kinds import KINDS, begins_as, file_kind, suffix_of
from mexma_cli.text.lines import (
    OTHER_FORMATS,
    broken_lines,
    document_id,
    estimate_size,
    is_blank,
    label_of,
    read_pieces,
    reading_order,
    with_line_feeds,
)
from mexma_cli.text.pages import doubt_of_encoding, in_utf8
from mexma_cli.text.rules import OF_SENTENCES, chosen_limits

log = logging.getLogger(__name__)

LONGEST = 16 << 20
"""Bytes of the longest document; a longer one is dropped."""
CHUNK = 2 << 20
"""Bytes of text that are worked on at a time, or one document."""


class RawDocument(NamedTuple):
    """A document as it was read: bytes of a kind, under an id; without any if it is too long.

    `charset` is the encoding that the header of HTTP states. In a `wrapped` text a line end is white space,
    and only blank lines end a paragraph.
    """

    kind: FileKind
    name: str
    content: bytes | None
    charset: str | None = None
    wrapped: bool = False


@dataclass(frozen=True)
class DocumentChunk:
    """Documents that are worked on together."""

    number: int
    documents: list[RawDocument]

    def size(self) -> int:
        """Bytes of text."""
        return sum(len(document.content or b"") for document in self.documents)

    def checksum(self) -> str:
        """xxh3_128 of the documents and their names."""
        digest = xxhash.xxh3_128()
        for kind, name, content, charset, wrapped in self.documents:
            size = -1 if content is None else len(content)
            digest.update(f"{kind} {name} {size} {charset} {wrapped}\n".encode("utf-8", "backslashreplace"))
            digest.update(content or b"")
        return digest.hexdigest()


@dataclass(frozen=True)
class Splitting:
    """How the documents of a run are split.

    Attributes:
        language: FLORES-200 code, or ``und``: then no rule asks for a script or a language. The side of TMX
            and of Moses pairs.
        rejects: Whether the text of what is dropped is kept.
        tag: The language as the user wrote it, for the tags of TMX.
    """

    language: str
    settings: SplitSettings = SplitSettings()
    rejects: bool = False
    tag: str | None = None

    @cached_property
    def limits(self) -> dict[str, float]:
        """The rules that are on, by name, with their limits; an unknown rule or limit is refused."""
        return chosen_limits(self.settings.on, self.settings.off, OF_SENTENCES)

    def as_json(self) -> dict[str, Any]:
        """The settings as JSON, for reports and fingerprints."""
        models = {"splitter", "splitter_model", "lid", "lid_model", "error_pages", "keep_html"}
        return {
            "language": self.language,
            "limits": self.limits,
            **self.settings.model_dump(mode="json", include=models),
            "fields": [self.settings.text_field, self.settings.id_field],
            "rejects": self.rejects,
        }


@dataclass
class Inputs:
    """The files of a run, in order.

    Attributes:
        files: As they are opened; ``-`` is stdin.
        names: How document ids call them: the path from the folder that all are in, without the ending of a
            text, a page or a compression.
        passed_over: Files in folders that are no text, other sides of Moses pairs, and records of WARC files
            that are no documents, by reason.
    """

    files: list[Path]
    names: list[str]
    passed_over: Counter[str] = field(default_factory=Counter)

    def documents(self, how: Splitting) -> Iterator[RawDocument]:
        """All documents of all files; a file that is missing, damaged, UTF-16, or not of its kind is
        refused."""
        for path, name in zip(self.files, self.names, strict=True):
            found = kind_to_read(path, how.settings)
            prefix = f"{name}:" if len(self.files) > 1 else ""
            if found == "warc":
                for page in read_pages(path, LONGEST, how.settings.error_pages, self.passed_over):
                    yield RawDocument(*page)
            elif found == "tmx":
                yield from _tmx(path, how.tag or how.language, prefix, self.passed_over)
            elif found == "html":
                yield _whole(_checked_pieces(path), name, "html")
            elif found == "text":
                pieces = _checked_pieces(path)
                if how.settings.format is None:
                    pieces = _of_no_other_kind(pieces, path)
                if how.settings.document == "file":
                    yield _whole(pieces, name, "text")
                else:
                    yield from _lines_or_paragraphs(pieces, prefix, "text", how.settings.document == "blank")
            else:
                pieces = _checked_pieces(path)
                if len(self.files) == 1:  # of many, one that is no JSONL is counted as malformed
                    pieces = _objects(pieces, label_of(path))
                yield from _lines_or_paragraphs(pieces, prefix, found)

    def size(self) -> int:
        """About how many bytes of text there are; 0 if nobody knows."""
        total = 0
        for path in self.files:
            if str(path) == "-" or not path.is_file():
                return 0
            total += path.stat().st_size if path.stat().st_size < 8 << 20 else estimate_size(path).size
        return total


def find_inputs(given: Sequence[str], language: str) -> Inputs:
    """The files that a user names: files, folders (all files in them and below, but hidden ones), globs, or
    ``-``; each folder and glob in `reading_order`. Of a Moses pair in a folder or a glob only the side in the
    language, a FLORES-200 code, is read. Refused: a name of nothing, and no file to read."""
    found = Inputs([], [])
    for text in given:
        path = Path(text)
        if EmbeddingStore.is_at(path):
            raise MexmaError(f"{text} is an embedding store, and text is read here", "name the text itself")
        if text == "-" or (path.exists() and not path.is_dir()):
            found.files.append(path)
        elif path.is_dir():
            inside = (Path(root) / name for root, _, names in os.walk(path) for name in names)
            files = (
                file for file in inside if not any(part[0] == "." for part in file.relative_to(path).parts)
            )
            found.files += with_text(sorted(files, key=reading_order), language, found.passed_over)
        else:
            matching = sorted(map(Path, glob.glob(text, recursive=True)), key=reading_order)
            if not matching:
                raise MexmaError(
                    f"{text}: no such file", "name files, folders, globs in quotes, or - for stdin"
                )
            found.files += with_text(
                [file for file in matching if file.is_file()], language, found.passed_over
            )
    if not found.files:
        raise MexmaError(
            f"{' '.join(given)}: no file with text", "name files, folders, globs in quotes, or -"
        )
    twice = [path for path, times in Counter(found.files).items() if times > 1]
    if twice:
        raise MexmaError(f"{twice[0]} is named twice")
    found.names = names_of(found.files)
    return found


def chosen_inputs(
    given: Sequence[str], lang: str, settings: SplitSettings, rejects: bool
) -> tuple[Inputs, Splitting]:
    """The files that a user names, and how they are split; `lang` as it is written, which is refused if it is
    unknown and there is more than TMX."""
    how = Splitting(known(lang), settings, rejects, lang)
    found = find_inputs(given, how.language)
    if not all((settings.format or file_kind(file)) == "tmx" for file in found.files):
        resolve(lang)  # only TMX has languages that are none
    elif how.language == UNSTATED:
        log.warning("%s is not the code of one language, so the language is not checked", lang)
    for warning in doubt_of_text(found.files, how):
        log.warning("%s", warning)
    return found, how


def kind_to_read(path: Path, settings: SplitSettings) -> FileKind:
    """The kind of a file; refused without the package that reads it."""
    found = settings.format or file_kind(path)
    if found in ("warc", "html"):
        require("trafilatura", "web", "HTML")
    return found


def doubt_of_text(files: Sequence[Path], how: Splitting) -> list[str]:
    """A warning of the first text that is probably in another encoding than is stated, or that has
    `broken_lines`, where each line would be a document; at most one."""
    by_line = (how.settings.document, how.settings.format) == ("line", None)
    for file in filter(Path.is_file, files):
        start = next(read_pieces(file, label_of(file)), b"") if file_kind(file) == "text" else b""
        if doubt := doubt_of_encoding(start, how.language) or (by_line and broken_lines(start)):
            return [f"{label_of(file)}: {doubt}"]
    return []


def names_of(files: Sequence[Path]) -> list[str]:
    """How document ids call files, as `Inputs` has it; their endings tell those apart that have one name. A
    book is called the same as text and as a page, so that both have one id. Two names that are the same
    Unicode are refused."""
    root = os.path.commonpath([os.path.dirname(os.path.abspath(path)) for path in files])
    whole = [label_of(path) if str(path) == "-" else os.path.relpath(path, root) for path in files]
    names = [document_id(_without_ending(plain_name(name))) for name in whole]
    times = Counter(names)
    names = [document_id(path) if times[name] > 1 else name for path, name in zip(whole, names, strict=True)]
    of_name: dict[str, Path] = {}
    for name, path in zip(names, files, strict=True):
        if of_name.setdefault(name, path) != path:
            raise MexmaError(f"{of_name[name]} and {path} would both be the document {name!r}", "rename one")
    return names


def ids_of_files(files: Sequence[Path], settings: SplitSettings) -> list[str] | None:
    """The ids of the documents in files, those of whole files first; of files in which a line or paragraph is
    one, the beginning that all have, with a colon. None where only reading the files would tell."""
    whole, beginnings = [], []
    for path, name in zip(files, names_of(files), strict=True):
        kind = settings.format or file_kind(path)
        if kind == "html" or (kind, settings.document) == ("text", "file"):
            whole.append(name)
        elif kind == "text" and len(files) > 1:
            beginnings.append(f"{name}:")
        else:
            return None
        if ":" in name:
            return None
    return whole + beginnings


def _without_ending(name: str) -> str:
    """A file's name without the ending of a text or a page."""
    stem, ending = os.path.splitext(name)
    return stem if ending.lower() == ".txt" or KINDS.get(ending.lower()) == "html" else name


def passed_over_in_words(passed_over: Counter[str]) -> str:
    """``passed over: 2 named .png, and no text; 1 image/png records``; empty for nothing."""
    said = "; ".join(f"{count:,} {reason}" for reason, count in passed_over.most_common(5))
    return f"passed over: {said}" if said else ""


def with_text(files: list[Path], language: str, passed_over: Counter[str]) -> Iterator[Path]:
    """Files with text, of Moses pairs those in the language."""
    own = set() if language == UNSTATED else set(spellings(language))
    other_sides = set()
    for pair in aligned_files(map(str, files)):
        for code, name, other in zip(pair.codes, pair.names, pair.codes[::-1], strict=True):
            if other in own and code not in own:
                other_sides.add(name)
    for path in files:
        if str(path) in other_sides:
            passed_over["other sides of Moses pairs"] += 1
        elif suffix_of(path) in OTHER_FORMATS and file_kind(path) == "text":
            passed_over[f"named {suffix_of(path)}, and no text"] += 1
        else:
            yield path


def chunks(documents: Iterator[RawDocument]) -> Iterator[DocumentChunk]:
    """Documents in chunks of `CHUNK` bytes or more, which depend on the documents alone."""
    held: list[RawDocument] = []
    size = number = 0
    for document in documents:
        held.append(document)
        size += len(document.content or b"") + len(document.name)
        if size >= CHUNK:
            yield DocumentChunk(number, held)
            held, size, number = [], 0, number + 1
    if held:
        yield DocumentChunk(number, held)


def _of_no_other_kind(pieces: Iterator[bytes], path: Path) -> Iterator[bytes]:
    """The pieces of a text, as they come."""
    first = next(pieces, b"")
    kind, where = begins_as(first), label_of(path)
    if kind == "xml":
        raise MexmaError(
            f"{where} is XML, of which only TMX and XHTML are read",
            "take its text out of it first; --format text reads it as text",
        )
    if kind in ("warc", "tmx", "jsonl"):
        raise MexmaError(
            f"{where} begins as {kind.upper()}", f"--format {kind} reads it so, --format text as text"
        )
    if suffix_of(path) in OTHER_FORMATS:
        raise MexmaError(f"{where} is no text, as its name says", "--format text reads it as text")
    yield from chain([first], pieces)


def _objects(pieces: Iterator[bytes], where: str) -> Iterator[bytes]:
    """The pieces of JSONL, as they come."""
    first = next(pieces, b"")
    if first.lstrip().startswith(b"["):
        raise MexmaError(
            f"{where} is a list in JSON, not an object a line",
            f"`jq -c '.[]' {shlex.quote(where)} > documents.jsonl` makes one of it",
        )
    yield from chain([first], pieces)


def _lines_or_paragraphs(
    pieces: Iterator[bytes], prefix: str, kind: FileKind, blank: bool = False
) -> Iterator[RawDocument]:
    """Each line, or each run of lines without a blank one between them, under its first line's number."""
    held: list[bytes] = []
    first = size = 0
    for number, line in enumerate(_lines(pieces), 1):
        if not blank:
            yield RawDocument(kind, f"{prefix}{number}", line)
            continue
        ends = line is None or is_blank(line.decode("utf-8", "replace"))
        if line is None or not ends:
            first = first if held else number
            held.append(b"" if line is None else line)
            size = min(size + (LONGEST if line is None else len(line) + 1), LONGEST + 1)
            if size > LONGEST:
                held = [b""]  # its text is not needed any more
        if held and ends:
            yield _gathered(held, size, kind, f"{prefix}{first}")
            held, size = [], 0
    if held:
        yield _gathered(held, size, kind, f"{prefix}{first}")


def _gathered(lines: list[bytes], size: int, kind: FileKind, name: str) -> RawDocument:
    return RawDocument(kind, name, None if size > LONGEST else b"\n".join(lines), wrapped=True)


def _lines(pieces: Iterator[bytes]) -> Iterator[bytes | None]:
    """The lines of a file, however it is encoded; None for one that is longer than `LONGEST`."""
    rest, too_long = b"", False
    for piece in with_line_feeds(pieces):
        *lines, last = piece.split(b"\n")
        if lines:
            lines[0] = rest + lines[0]
            for line in lines:
                yield None if too_long or len(line) > LONGEST else line
                too_long = False
            rest = b""
        if not too_long:
            rest += last
            if len(rest) > LONGEST:
                rest, too_long = b"", True
    if rest or too_long:
        yield None if too_long else rest


def _whole(pieces: Iterator[bytes], name: str, kind: FileKind) -> RawDocument:
    held, size = [], 0
    for piece in pieces:
        size += len(piece)
        if size > LONGEST:
            return RawDocument(kind, name, None)
        held.append(piece)
    return RawDocument(kind, name, b"".join(held), wrapped=kind == "text")


def _checked_pieces(path: Path) -> Iterator[bytes]:
    """A file's bytes, without a byte order mark."""
    where = label_of(path)
    for number, piece in enumerate(in_utf8(read_pieces(path, where), where)):
        if number == 0:
            piece = piece.removeprefix(codecs.BOM_UTF8)
        yield piece


def _tmx(path: Path, language: str, prefix: str, passed_over: Counter[str]) -> Iterator[RawDocument]:
    """The segments of a TMX document in a language, under the number of their unit."""
    from mexma_cli.formats.bitext import open_pairs
    from mexma_cli.formats.sides import NO_SIDE

    if language == UNSTATED:
        raise MexmaError(f"{label_of(path)} has several languages", "say which one is wanted: --lang fra")
    sides = (language, NO_SIDE)
    bitext = open_pairs(path, languages=sides, format="tmx", options="--lang", left_out=passed_over)
    for number, pair in enumerate(bitext.pairs, 1):
        yield RawDocument("text", f"{prefix}{number}", pair.source.encode("utf-8"))
