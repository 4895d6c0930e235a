"""One chunk of documents to sentences: decoded, repaired, split, and tried by the rules."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import xxhash
import zstandard

from mexma_cli.files import whole_file
from mexma_cli.stages.split.inputs import LONGEST, DocumentChunk, RawDocument, Splitting
from mexma_cli.text.characters import INVISIBLE, unwrapped
from mexma_cli.text.identify import expected, identifier, in_other_language, languages_seen
from mexma_cli.text.lines import document_id, is_blank
from mexma_cli.text.pages import decode_page, usual_encoding
from mexma_cli.text.repair import decode, repair
from mexma_cli.text.rules import CODES, SentenceRules
from mexma_cli.text.splitting import splitter

DOCUMENT_REASONS = {
    "not UTF-8": "a document in another encoding (see --encoding), or no text at all",
    "too long": "a document of more than 16 MiB",
    "malformed": "a line that is no JSON object with the text field (see --text-field)",
    "empty": "a document without text, such as a blank line of a text file (see --document)",
}
"""Why whole documents are dropped; these rules cannot be turned off."""
DOCUMENT_CODES = {reason: code for code, reason in enumerate(DOCUMENT_REASONS, 200)}
"""Their numbers, beside `CODES` of the rules."""


@dataclass
class ChunkResult:
    """The rows of a chunk: its sentences and the documents that were dropped whole, in order.

    Attributes:
        names: Of its documents.
        codes: uint8 [rows], why a row is dropped (`CODES`, `DOCUMENT_CODES`), 0 if it is not.
        documents: uint32 [rows], by their place in `names`.
        spans: uint32 [rows, 2], the characters in the document.
        hashes: uint64 [kept rows].
        bands: uint64 [kept rows, bands] of near-duplicates; no columns where nobody asks for them.
        text: Of the kept rows, or of all of them.
        counts: Documents read, and repaired by kind; characters read; words put together at line ends.
        files: Of files with a document a line or paragraph, by name: documents by reason, "" for read.
        seen: The languages of the rows that are in another one, in order, if rejects are wanted.
    """

    checksum: str
    names: list[str]
    codes: np.ndarray
    documents: np.ndarray
    spans: np.ndarray
    hashes: np.ndarray
    bands: np.ndarray
    text: list[str]
    counts: dict[str, int] = field(default_factory=dict)
    files: dict[str, dict[str, int]] = field(default_factory=dict)
    seen: list[str] = field(default_factory=list)

    def write(self, path: Path) -> None:
        """Write it into a file, whole or not at all."""
        meta = json.dumps({name: getattr(self, name) for name in _META}).encode()
        packed = zstandard.ZstdCompressor(1)
        arrays: dict[str, Any] = {name: getattr(self, name) for name in _ARRAYS}
        for name in _LINES:
            lines = packed.compress("\n".join(getattr(self, name)).encode("utf-8"))
            arrays[name] = np.frombuffer(lines, dtype=np.uint8)
        with whole_file(path) as file:
            np.savez(
                file,
                meta=np.frombuffer(meta, dtype=np.uint8),
                sizes=np.array([len(getattr(self, name)) for name in _LINES]),
                **arrays,
            )


_LINE_END, _BLANK_LINES = re.compile("\n"), re.compile(f"\n[{INVISIBLE}]*\n")
_ARRAYS = ("codes", "documents", "spans", "hashes", "bands")
_LINES = ("names", "text")
_META = ("checksum", "counts", "files", "seen")


class ChunkFile:
    """A chunk's result on disk, of which only what is asked for is read."""

    def __init__(self, path: Path) -> None:
        self._file = np.load(path)
        meta = json.loads(self._file["meta"].tobytes())
        self.checksum: str = meta["checksum"]
        self.counts: dict[str, int] = meta["counts"]
        self.files: dict[str, dict[str, int]] = meta["files"]
        self.seen: list[str] = meta["seen"]

    def array(self, name: str) -> np.ndarray:
        """An array of `ChunkResult`, by its name."""
        return np.asarray(self._file[name])

    def lines(self, name: str) -> list[str]:
        """``names`` or ``text``."""
        if not self._file["sizes"][_LINES.index(name)]:
            return []
        unpacked: bytes = zstandard.ZstdDecompressor().decompress(self._file[name].tobytes())
        return unpacked.decode("utf-8").split("\n")


def checksum_of(path: Path) -> str | None:
    """The checksum of the documents that a file was made of; None if it is not whole."""
    try:
        found = ChunkFile(path)
        for name in (*_ARRAYS, *_LINES):
            found.array(name)  # which compares it with its own checksum
    except (OSError, ValueError, KeyError, EOFError, BadZipFile):
        return None
    return found.checksum


class ChunkWorker:
    """Makes results of chunks; a process has one, which loads its models when they are needed."""

    def __init__(self, how: Splitting) -> None:
        self._how, self._settings = how, how.settings
        script = how.language.partition("_")[2] or None
        self._rules = SentenceRules(how.limits, script)

    def __reduce__(self) -> tuple[Any, ...]:
        return ChunkWorker, (self._how,)

    @cached_property
    def _split(self) -> Any:
        return splitter(self._settings.splitter, self._how.language, self._settings.splitter_model)

    @cached_property
    def _identifier(self) -> Any:
        if "language" not in self._how.limits or self._how.language == "und":
            return None
        return identifier(self._settings.lid, self._settings.lid_model)

    @cached_property
    def _signatures(self) -> Any:
        from mexma_cli.text.near_duplicates import Signatures

        limit = self._how.limits.get("near-duplicate")
        return None if limit is None else Signatures(limit)

    def check(self) -> str | None:
        """Load the models, and refuse a language that they do not know; returns the identifier's name."""
        assert self._split
        if self._identifier is None:
            return None
        expected(self._how.language, self._identifier)
        return str(self._identifier.name)

    def make(self, chunk: DocumentChunk, path: Path) -> None:
        """Write the result of a chunk into a file."""
        self.work(chunk).write(path)

    def work(self, chunk: DocumentChunk) -> ChunkResult:
        """Decode, repair, split, and try the rules."""
        counts: Counter[str] = Counter(documents=len(chunk.documents))
        self._ids = [0, 0]
        found = list(map(self._text, chunk.documents))
        counts["objects"], counts["ids"] = self._ids
        names = [document_id(" ".join(name.split())) or "-" for name, _, _ in found]
        wrapped = {place for place, document in enumerate(chunk.documents) if document.wrapped}
        texts = repair([text or "" for _, text, _ in found], counts, self._settings.keep_html, wrapped)
        reasons = [
            reason or "empty" * is_blank(text) for text, (_, _, reason) in zip(texts, found, strict=True)
        ]
        codes = [DOCUMENT_CODES[reason] if reason else 0 for reason in reasons]
        files = defaultdict[str, Counter[str]](Counter)
        for document, reason in zip(chunk.documents, reasons, strict=True):
            if document.kind in ("jsonl", "text"):
                files[document.name.rpartition(":")[0]][reason] += 1
        counts["characters"] = sum(map(len, texts))
        rows = [
            (text, place in wrapped, code)
            for place, (text, code) in enumerate(zip(texts, codes, strict=True))
        ]
        result = self._result(chunk.checksum(), names, rows, counts)
        result.files = {name: dict(of_file) for name, of_file in files.items()}
        return result

    def _result(
        self, checksum: str, names: list[str], texts: list[tuple[str, bool, int]], counts: Counter[str]
    ) -> ChunkResult:
        """The sentences of texts, each with whether it is wrapped and why it is dropped whole, or 0."""
        rows: list[str] = []
        documents, spans = [], []
        place = []  # rows of documents that are dropped whole, with their codes
        for number, (text, wrapped, dropped) in enumerate(texts):
            if dropped:
                place.append((len(rows), dropped))
                rows.append("")
                documents.append(number)
                spans.append((0, len(text)))
                continue
            for start, end in self._sentences(text, wrapped):
                rows.append(text[start:end])
                documents.append(number)
                spans.append((start, end))
        sentences = [_one_line(row) for row in rows]
        numbers = np.array(documents, dtype=np.uint32)
        codes = self._rules.codes(sentences)
        for row, code in place:
            codes[row] = code
        seen = self._drop_other_languages(sentences, numbers, codes)
        kept = np.flatnonzero(codes == 0).tolist()
        passed = [sentences[row] for row in kept]
        hashes = [xxhash.xxh3_64_intdigest(sentence.encode("utf-8")) for sentence in passed]
        bands = self._signatures.bands(passed) if self._signatures else np.empty((len(kept), 0), np.uint64)
        return ChunkResult(
            checksum,
            names,
            codes,
            numbers,
            np.array(spans, dtype=np.uint32).reshape(-1, 2),
            np.array(hashes, dtype=np.uint64),
            bands,
            sentences if self._how.rejects else passed,
            dict(counts),
            seen=seen,
        )

    def _sentences(self, text: str, wrapped: bool) -> Any:
        """The spans of a document's sentences. A line end ends one, too; in wrapped text blank lines do."""
        start = 0
        for end in [*(_BLANK_LINES if wrapped else _LINE_END).finditer(text), None]:
            part = text[start : end.start() if end else len(text)]
            for first, last in () if is_blank(part) else self._split(_spaced(part)):
                yield start + first, start + last
            start = end.end() if end else start

    def _drop_other_languages(
        self, sentences: list[str], documents: np.ndarray, codes: np.ndarray
    ) -> list[str]:
        """Note the code of such sentences; returns their languages, if rejects are wanted."""
        if self._identifier is None:
            return []
        rows = np.flatnonzero(codes == 0)
        lines = [sentences[row] for row in rows.tolist()]
        told = lines, self._identifier, self._how.language, documents[rows]
        other = in_other_language(*told)
        codes[rows[other]] = CODES["language"]
        return languages_seen(*told, np.flatnonzero(other).tolist()) if self._how.rejects else []

    def _text(self, document: RawDocument) -> tuple[str, str | None, str | None]:
        """A document's name, and its text or the reason why there is none."""
        kind, name, content, charset, _ = document
        if content is None:
            return name, None, "too long"
        if kind == "html":
            usual = usual_encoding(self._how.language)
            return name, *_extracted(decode_page(content, charset, usual=usual) or content)
        text = decode(content, charset)
        if text is None:
            return name, None, "not UTF-8"
        return self._from_json(name, text) if kind == "jsonl" else (name, text, None)

    def _from_json(self, name: str, line: str) -> tuple[str, str | None, str | None]:
        if is_blank(line):
            return name, None, "empty"
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            return name, None, "malformed"
        text = found.get(self._settings.text_field) if isinstance(found, dict) else None
        if not isinstance(text, str):
            return name, None, "malformed"
        self._ids[0] += 1
        given = found.get(self._settings.id_field)
        if isinstance(given, str | int) and str(given).strip():
            name = str(given)
            self._ids[1] += 1
        plain = decode(text.encode("utf-8", "replace"))  # half of a surrogate pair becomes a question mark
        return name, plain, None


def _spaced(part: str) -> str:
    """A part of a document as splitters know it: its white space is spaces. So are no-break spaces where they
    are in the majority, as editors of web pages write them."""
    part = part.replace("\t", " ").replace("\n", " ")
    return part.replace("\u00a0", " ") if part.count("\u00a0") > part.count(" ") else part


_TAG = re.compile(r"""<[a-zA-Z](?:[^<>"']++|"[^"]*+"|'[^']*+')*""")
_AS_IT_STANDS = re.compile(r"(</?(?:pre|textarea|listing|xmp)\b)", re.IGNORECASE)
_UNPRINTABLE = re.compile("[\x80-\x9f]|(?<=[\xc0-\xff])\xad")
_PRINTABLE = 0x14400
"""From here on, letters that no page has (Anatolian) stand for characters of mojibake: trafilatura
leaves these out, and the rest could not be repaired."""
_BACK = {_PRINTABLE + code: code for code in (*range(0x80, 0xA0), 0xAD)}
_MOST_ATTRIBUTES = 1000
"""Most attributes of a tag: libxml2 compares each with all others."""


def _extracted(page: str | bytes) -> tuple[str | None, str | None]:
    """The text of an HTML page without its menus and the like, a paragraph a line."""
    from trafilatura import extract
    from trafilatura.utils import decode_file

    text = page if isinstance(page, str) else decode_file(page, LONGEST)
    long = (tag[0] for tag in _TAG.finditer(text) if len(tag[0]) > 2 * _MOST_ATTRIBUTES)
    if any(len(re.findall(r"""[\s/]|"[^"]*"|'[^']*'""", tag)) > 2 * _MOST_ATTRIBUTES for tag in long):
        return None, "malformed"
    text = _UNPRINTABLE.sub(lambda found: chr(_PRINTABLE + ord(found[0])), text)
    try:
        text = extract(_on_one_line(text), include_comments=False)
    except Exception:  # broken pages make its parsers fail in many ways
        return None, "malformed"
    return (text.translate(_BACK), None) if text else (None, "empty")


def _on_one_line(page: str) -> str:
    """A page with a space for each line end, which is one in HTML, but for text that is written as it stands:
    trafilatura keeps some of them."""
    parts, as_it_stands = _AS_IT_STANDS.split(unwrapped(page)), False
    for place, part in enumerate(parts):
        if place % 2:
            as_it_stands = not part.startswith("</")
        elif not as_it_stands:
            parts[place] = part.replace("\r", " ").replace("\n", " ")
    return "".join(parts)


def _one_line(sentence: str) -> str:
    """A sentence with each run of white space as one space, but as by `unwrapped`."""
    if sentence.isprintable() and "  " not in sentence:
        return sentence
    return " ".join(unwrapped(sentence).split())
