"""TMX 1.4, the exchange format of translation memories: https://www.gala-global.org/tmx-14b.

It is read by expat in pieces, so that memory does not grow with the file, and entities that a file declares
itself are refused: a few of them can expand to gigabytes.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, NoReturn
from xml.parsers import expat

from mexma_cli import __version__
from mexma_cli.errors import MexmaError
from mexma_cli.formats.bitext import (
    FIELDS,
    BitextFormat,
    OpenedPairs,
    Pair,
    RawText,
    begun,
    bitext_format,
    pair_of,
    told_of_languages,
)
from mexma_cli.formats.sides import (
    MOST_TAGS,
    NO_SIDE,
    AmbiguousError,
    WantedSide,
    as_codes,
    choose_tags,
    one_region,
)
from mexma_cli.formats.tsv import field_text, parsed_field, shortened
from mexma_cli.languages import UNSTATED, bcp47, known, subtags
from mexma_cli.text.characters import unwrapped
from mexma_cli.text.lines import LINE_LIMIT
from mexma_cli.text.pages import encoding_of, is_utf8

if TYPE_CHECKING:
    from mexma_cli.text.writing import Chunk

_FORBIDDEN = "[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"  # slow to compile
_CODES = ("bpt", "ept", "ph", "it", "ut")
"""Elements in a segment whose text is formatting, and none of the sentence."""
_BREAKS = ("lb", "x-lb", "br", "x-br")
"""Types of such elements that break a line."""
_BREAK = re.compile(r"<br\b", re.IGNORECASE)
_STEP = 1 << 16
_WAITING = 10_000
"""Units that may come before the first one with all sides."""
_LONGEST = 16 << 20
"""Bytes in which a unit ends: expat holds what has begun, and looks at it again and again."""
_DEEPEST = 100
"""Elements around one; expat remembers all that are open."""
_IN_HEADER = 3
"""The depth of an element of the header; those of a unit are deeper."""
_LANGUAGES = 1000
"""Languages in a unit, and those that are remembered."""
_DECLARED = re.compile(rb"<\?xml[^>]*?\sencoding\s*=\s*[\"']([^\"'<>]*)[\"']")
_NO_CHARSETS = frozenset({"charmap", "idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape"})
"""Python's codecs of text in which no document is."""
DIGITS = 6
_UTF16 = {
    codecs.BOM_UTF16_LE + b"<\0": "utf-16-le",
    codecs.BOM_UTF16_BE + b"\0<": "utf-16-be",
    b"<\0?\0": "utf-16-le",
    b"\0<\0?": "utf-16-be",
}
"""How documents in UTF-16 begin -> codec."""
_REFERENCE = re.compile("&#([xX][0-9A-Fa-f]{1,8}|[0-9]{1,8});")
_LONGEST_REFERENCE = 12
_REMOVED = "characters that XML forbids"
_OTHER_TAGS = "tags of other regions than the first"
_BEGUN = re.compile(rb"<!--|<!DOCTYPE\s")


_START = 1 << 10
"""Bytes that hold the declaration of a document."""


@bitext_format
class Tmx(BitextFormat):
    """A whole TMX document: a unit a pair, with the score as a property, and the ids as more of them. Scores
    are rounded to `DIGITS`.

    Characters that XML forbids (most control characters) are removed. Of a document with more than two
    languages the sides that are wanted have to be stated.
    """

    name = "tmx"
    endings = (".tmx",)
    ids = "wanted"
    about = "TMX 1.4, with the score as property x-score"
    changes = "characters that XML forbids were removed"
    by_language = True

    def recognises(self, start: bytes) -> bool:
        """White space and comments may stand before the root; a line of TSV has a tab."""
        if start.startswith(tuple(_UTF16)):
            return True
        start = start.removeprefix(codecs.BOM_UTF8).lstrip()
        return start.startswith((b"<?xml", b"<tmx")) or bool(
            _BEGUN.match(start) and b"\t" not in start.partition(b"\n")[0]
        )

    def write(
        self, pairs: Iterable[Pair], languages: tuple[str, str], with_ids: bool = False
    ) -> Iterator[Chunk]:
        tags = [f'"{escape(bcp47(code))}"' for code in languages]
        header = (
            f'<header creationtool="mexma" creationtoolversion="{escape(__version__)}" segtype="sentence" '
            f'o-tmf="mexma" adminlang="en" srclang={tags[0]} datatype="plaintext"/>'
        )
        yield (f'<?xml version="1.0" encoding="UTF-8"?>\n<tmx version="1.4">\n{header}\n<body>\n',), 0
        for number, pair in enumerate(told_of_languages(pairs, languages), 1):
            # Scores have no more digits than people read.
            rounded = [round(value, DIGITS) if isinstance(value, float) else value for value in pair]
            values = zip(pair._fields, rounded, strict=True)
            wanted = {*pair._fields} - {"source", "target"} if with_ids else {"score"}
            properties = "".join(
                f'<prop type="x-{name.replace("_", "-")}">{_escaped(field_text(value))}</prop>'
                for name, value in values
                if name in wanted and value is not None and value == value
            )
            sentences = (pair.source, pair.target)
            segments = "".join(
                f"<tuv xml:lang={tag}><seg>{_escaped(sentence)}</seg></tuv>"
                for tag, sentence in zip(tags, sentences, strict=True)
            )
            changed = sum(re.search(_FORBIDDEN, sentence) is not None for sentence in sentences)
            yield (f'<tu tuid="{number}">{properties}{segments}</tu>\n',), changed
        yield ("</body>\n</tmx>\n",), 0

    def read(self, *texts: RawText, languages: tuple[str, str]) -> OpenedPairs:
        """A unit without one of the two languages is a pair with an empty side. Refused: what is no TMX or
        not well formed, entities of its own, a segment of more than `LINE_LIMIT` characters, and a document
        without both languages, or with more if they are not stated."""
        (text,) = texts
        reader = _Reader(text, languages)
        pairs = ((None, pair) for pair in reader.pairs(text.pieces))
        return begun(self.name, pairs, lambda: reader.languages)


class _Reader:
    """Expat's events become pairs."""

    def __init__(self, text: RawText, languages: tuple[str, str]) -> None:
        self._raw, self._where = text, text.where
        self._sides = [WantedSide(code) for code in languages]
        self._chosen: dict[tuple[str, ...], list[str | None]] = {}  # tags of a unit -> those of the sides
        self._waiting: list[tuple[dict[str, str], dict[str, Any]]] = []  # units before the sides are known
        self._found: list[Pair] = []
        self._units = self._whole = 0
        self._seen = text.segments  # by tag, in order
        self._segments: dict[str, str] = {}
        self._properties: dict[str, Any] = {}
        self._tags: dict[str, str] = {}  # of the unit, in lower case -> as it is written
        self._language = self._property = self._root = ""
        self._text: list[str] | None = None  # of the segment or property that is open
        self._code: list[str] = []  # of the element of formatting that is open
        self._length = self._codes = self._depth = 0
        self._tagged = [False, False]
        self._parser: Any = None
        self._encoding = ""

    @property
    def languages(self) -> tuple[str, str]:
        """The languages of source and target: FLORES-200 codes as far as there are any."""
        return as_codes((self._sides[0].tag, self._sides[1].tag))

    def pairs(self, pieces: Iterable[bytes]) -> Iterator[Pair]:
        """All pairs; `languages` are known from the first one on."""
        read = 0
        for step in chain(self._steps(iter(pieces)), [None]):
            read = 0 if self._found else read + len(step or b"")
            if read > _LONGEST:
                self._fail(f"no unit ends in the next {_LONGEST >> 20} MiB", "is it a TMX, and whole?")
            self._found.clear()
            try:
                self._parser.Parse(step or b"", step is None)
            except expat.ExpatError as error:
                self._fail(f"not well-formed XML: {expat.errors.messages[error.code]}")
            yield from self._found
        if self._units and not self._whole:
            wanted = [side.tag for side in self._sides if side.tag not in (NO_SIDE, UNSTATED)]
            languages = (
                f"{'both ' if len(wanted) > 1 else ''}{' and '.join(wanted)}" if wanted else "two languages"
            )
            there = ", ".join(islice(self._seen, MOST_TAGS)) or "no segments"
            hint = self._how(self._seen) if self._seen else "the text of a <tuv> stands in its <seg>"
            self._fail(f"no unit has {languages}; there are {there}", hint)

    def _steps(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        """The document in small steps, in UTF-8."""
        start = b""
        while len(start) < _START and b"?>" not in start and (piece := next(pieces, b"")):
            start += piece
        utf16 = next((codec for begun, codec in _UTF16.items() if start.startswith(begun)), None)
        stated = encoding_of(start)
        for mark in (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            start = start.removeprefix(mark)
        if utf16 is None:
            start = start.lstrip()  # nothing may be before a declaration of XML
        declared = None if utf16 else _DECLARED.match(start)
        unsaid = stated if stated and not is_utf8(start, stated) else "utf-8"
        encoding = utf16 or (declared[1].decode("latin-1") if declared else unsaid)
        # A declaration that can be read as it is here does not stand in UTF-16.
        self._encoding = "UTF-8" if not utf16 and encoding.lower().startswith("utf-16") else encoding
        decoder = self._decoder(self._encoding)
        self._parser = parser = expat.ParserCreate("utf-8")
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._characters
        parser.EntityDeclHandler = parser.SkippedEntityHandler = self._entity
        rest = ""
        for piece in chain([start], pieces, [b""]):
            for at in range(0, max(1, len(piece)), _STEP):
                text = rest + self._decoded(decoder, piece[at : at + _STEP], final=not piece)
                begun = text.rfind("&", -_LONGEST_REFERENCE)
                cut = begun if piece and begun >= 0 and ";" not in text[begun:] else len(text)
                text, rest = text[:cut], text[cut:]
                yield self._allowed(text).encode("utf-8")

    def _allowed(self, text: str) -> str:
        """Without the characters that XML forbids, as they are or as references: some programs write them."""
        found, count = re.subn(_FORBIDDEN, "", text)
        if "&#" in found:
            found = _REFERENCE.sub(self._reference, found)
        if count:
            self._raw.left_out[_REMOVED] += count
        return found

    def _reference(self, found: re.Match[str]) -> str:
        number = int(found[1][1:], 16) if found[1][0] in "xX" else int(found[1])
        if number < 0x110000 and not re.match(_FORBIDDEN, chr(number)):
            return found[0]
        self._raw.left_out[_REMOVED] += 1
        return ""

    def _decoder(self, encoding: str) -> codecs.IncrementalDecoder:
        """A decoder for the document's encoding."""
        try:
            found = codecs.lookup(encoding)
            if found._is_text_encoding and found.name not in _NO_CHARSETS:
                return codecs.getincrementaldecoder(encoding)()
        except (LookupError, ValueError):  # also a name with a NUL
            pass
        raise MexmaError(
            f"{self._where}: no encoding is known that is called {shortened(encoding)}", "convert it to UTF-8"
        )

    def _decoded(self, decoder: codecs.IncrementalDecoder, step: bytes, final: bool) -> str:
        try:
            return decoder.decode(step, final)
        except UnicodeError as error:
            self._fail(
                f"not in {self._encoding} ({getattr(error, 'reason', error)})",
                'the first line states it, <?xml version="1.0" encoding="windows-1252"?>, or else --encoding',
            )

    def _fail(self, message: str, hint: str | None = None) -> NoReturn:
        raise MexmaError(f"{self._where}, line {self._parser.CurrentLineNumber}: {message}", hint)

    def _entity(self, name: str, *_: object) -> None:
        self._fail(f"the entity &{name}; is not one of XML's own, and others are not read")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > _DEEPEST:
            self._fail(f"elements inside of more than {_DEEPEST} others", "is it a TMX?")
        if not self._root:
            self._root = name
            if name != "tmx":
                self._fail(f"this is XML, and no TMX: its root is {name}", "translation tools export TMX")
        if name in ("note", "prop") and self._depth > _IN_HEADER and not _field(attributes.get("type", "")):
            self._raw.left_out["notes and properties"] += 1
        if name == "tu":
            self._segments, self._properties, self._tags, self._language = {}, {}, {}, ""
            if attributes.get("tuid") not in (None, str(self._units + 1)):
                self._raw.left_out["ids of units (tuid)"] += 1
        elif name == "tuv":
            self._language = attributes.get("xml:lang") or attributes.get("lang") or UNSTATED
        elif name == "prop" and not self._language:
            self._property = attributes.get("type", "")
            self._text, self._length = [], 0
        elif name == "seg":
            self._text, self._length, self._codes = [], 0, 0
        elif name in _CODES:
            self._codes += 1
            self._code = [" "] if attributes.get("type", "").lower() in _BREAKS else []

    def _characters(self, text: str) -> None:
        if self._text is None:
            return
        self._length += len(text)
        if self._length > LINE_LIMIT:
            self._fail(f"a segment of more than {LINE_LIMIT:,} characters", "is it split into sentences?")
        (self._code if self._codes else self._text).append(text)

    def _end(self, name: str) -> None:
        self._depth -= 1
        if name in _CODES:
            self._codes -= 1
            if self._text is not None and (self._code[:1] == [" "] or _BREAK.search("".join(self._code))):
                self._text.append(" ")
            self._code = []
        elif name in ("seg", "prop") and self._text is not None:
            text, self._text = "".join(self._text), None
            if name == "seg":
                if "\n" in text:  # it is wrapped over lines, and indented
                    text = " ".join(unwrapped(text).split())
                text = text.strip(" ")  # beside formatting
                tag = self._tags.setdefault(self._language.lower().replace("_", "-"), self._language)
                if tag in self._segments:
                    self._raw.left_out["further segments in a language of their unit"] += 1
                self._segments.setdefault(tag, text)
                if len(self._segments) > _LANGUAGES:
                    self._fail(f"a unit in more than {_LANGUAGES:,} languages", "is it a TMX?")
            elif field := _field(self._property):
                self._properties[field] = value = parsed_field(field, text)
                self._raw.count_others([(f"{field} (no number)", text)] if value is None else [])
        elif name == "tuv":
            self._language = ""
        elif name == "tu":
            room = len(self._seen) < _LANGUAGES
            self._seen.update(tag for tag in self._segments if room or tag in self._seen)
            self._units += 1
            self._waiting.append((self._segments, self._properties))
            if WantedSide(UNSTATED) not in self._sides or self._choose():
                self._found += [self._pair(*unit) for unit in self._waiting]
                self._waiting.clear()
            elif len(self._waiting) > _WAITING:
                self._fail(f"none of the first {_WAITING:,} units has two languages", self._how(self._seen))

    def _pair(self, segments: dict[str, str], properties: dict[str, Any]) -> Pair:
        tags = tuple(segments)
        chosen = self._chosen.get(tags)
        if chosen is None:
            if len(self._chosen) > _LANGUAGES:
                self._chosen.clear()
            seen = {tag: place for place, tag in enumerate(self._seen)}
            ordered = sorted(tags, key=lambda tag: seen.get(tag, len(seen)))  # the same region in every unit
            chosen = self._chosen[tags] = self._sides_among(ordered)
        left = [tag for tag in tags if tag not in chosen]
        languages = {known(tag) for tag in chosen if left and tag is not None} - {UNSTATED}
        if regions := sum(known(tag) in languages for tag in left):
            self._raw.left_out["segments in another region of a language"] += regions
        if all(side.tag != NO_SIDE for side in self._sides):
            if len(left) > regions:
                self._raw.left_out["segments in other languages"] += len(left) - regions
            self._note_tags(chosen)
        self._whole += all(tag or side.tag == NO_SIDE for tag, side in zip(chosen, self._sides, strict=True))
        return pair_of(properties, *("" if tag is None else segments[tag] for tag in chosen))

    def _note_tags(self, chosen: Sequence[str | None]) -> None:
        """Take the first tag of each side's language as the side's; count segments with another one."""
        for place, (tag, side) in enumerate(zip(chosen, self._sides, strict=True)):
            if tag is None or known(tag) != known(side.tag):
                continue
            if not self._tagged[place]:
                self._tagged[place], self._raw.tags[place] = True, tag
            if subtags(tag) != subtags(self._raw.tags[place]):
                self._raw.left_out[_OTHER_TAGS] += 1

    def _sides_among(
        self, tags: Sequence[str], sides: Sequence[WantedSide] | None = None
    ) -> list[str | None]:
        try:
            return choose_tags(sides or self._sides, tags)
        except AmbiguousError as error:
            if len(error.tags) > 1:
                message = f"a unit has {' and '.join(error.tags)}, and {error.side} means each of them"
            else:
                message = f"{error.side} mean the same segment, {error.tags[0]}"
            self._fail(message, self._how(self._seen if len(error.tags) == 1 else error.tags))

    def _how(self, tags: Iterable[str]) -> str:
        """The hint that says how to state languages."""
        listed = ", ".join(islice(tags, MOST_TAGS))
        if self._raw.options:
            return f"state what is wanted of {listed}: {self._raw.options}"
        return (
            "`mexma filter --off all --source-lang CODE --target-lang CODE -o pairs.tsv` writes the pairs of "
            f"two of {listed}"
        )

    def _choose(self) -> bool:
        """Take the languages that are not stated from a unit; whether it has so many.

        The same language with another region is meant, too, unless it is the other side.
        """
        tags = list(self._segments)
        stated = [side if side.tag != UNSTATED else WantedSide(NO_SIDE) for side in self._sides]
        taken = self._sides_among(tags, stated)
        others = [tag for tag in tags if tag not in taken]
        wanted = self._sides.count(WantedSide(UNSTATED))
        if len(others) > wanted:
            others = one_region(others, taken)
        if len(others) > wanted:
            self._fail(
                f"a unit has {', '.join(tags[:MOST_TAGS])}; two languages are read", self._how(self._seen)
            )
        if len(others) < wanted or (len(stated) - wanted and not any(taken)):
            return False
        codes = [known(tag) for tag in (*others, *(side.tag for side in stated))]
        self._sides = [
            WantedSide(tag := others.pop(0), codes.count(known(tag)) > 1) if side.tag == UNSTATED else side
            for side in self._sides
        ]
        return True


def _field(kind: str) -> str:
    """The field of a pair that a property of this type has; empty if none."""
    field = kind.removeprefix("x-").replace("-", "_")
    return field if field in FIELDS and kind.startswith("x-") else ""


def _escaped(text: str) -> str:
    """A text as content of an element, without the characters that XML forbids."""
    text = escape(re.sub(_FORBIDDEN, "", text), quote=False)
    return text.replace("\r", "&#13;")  # a plain one would be read as a line break
