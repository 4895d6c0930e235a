"""TMX 1.4, the exchange format of translation memories: https://www.gala-global.org/tmx-14b.

It is read by expat in pieces, so that memory does not grow with the file, and entities that a file declares
itself are refused: a few of them can expand to gigabytes.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from html import escape
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, NoReturn
from xml.parsers import expat

from mexma_cli import __version__
from mexma_cli.errors import MexmaError
from mexma_cli.formats.bitext import (
    AlignedPair,
    Bitext,
    BitextFormat,
    MinedPair,
    Pair,
    RawText,
    bitext_format,
    pair_of,
)
from mexma_cli.formats.tsv import parsed, shortened, shown
from mexma_cli.languages import UNSTATED, resolve
from mexma_cli.text.lines import LINE_LIMIT

if TYPE_CHECKING:
    from mexma_cli.text.writing import Chunk

_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_CODES = ("bpt", "ept", "ph", "it", "ut")
"""Elements in a segment whose text is formatting, and none of the sentence."""
_STEP = 1 << 16
_LONGEST = 16 << 20
"""Bytes in which a unit ends: expat holds what has begun, and looks at it again and again."""
_DEEPEST = 100
"""Elements around one; expat remembers all that are open."""
_LANGUAGES = 1000
"""Languages in a unit, and those that a message may name."""
_DECLARED = re.compile(rb"<\?xml[^>]*?\sencoding\s*=\s*[\"']([^\"'<>]*)[\"']")
_EXPATS = frozenset({"utf-8", "utf-16", "iso8859-1", "ascii"})
"""The encodings that expat knows itself, as Python calls them."""
_NO_CHARSETS = frozenset({"charmap", "idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape"})
"""Python's codecs of text in which no document is."""
DIGITS = 6
_UTF16 = (codecs.BOM_UTF16_LE + b"<\0", codecs.BOM_UTF16_BE + b"\0<")


_START = 1 << 10
"""Bytes that hold the declaration of a document."""
_FIELDS = frozenset({*MinedPair._fields, *AlignedPair._fields}) - {"source", "target"}


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
    magic = (b"<?xml", b"<tmx", b"<!DOCTYPE tmx", codecs.BOM_UTF8 + b"<", *_UTF16)

    def write(
        self, pairs: Iterable[Pair], languages: tuple[str, str], with_ids: bool = False
    ) -> Iterator[Chunk]:
        tags = [f'"{escape(bcp47(code))}"' for code in languages]
        header = (
            f'<header creationtool="mexma" creationtoolversion="{escape(__version__)}" segtype="sentence" '
            f'o-tmf="mexma" adminlang="en" srclang={tags[0]} datatype="plaintext"/>'
        )
        yield (f'<?xml version="1.0" encoding="UTF-8"?>\n<tmx version="1.4">\n{header}\n<body>\n',), 0
        for number, pair in enumerate(pairs, 1):
            values = zip(pair._fields, pair, strict=True)
            known = [(name, value) for name, value in values if name not in ("source", "target")]
            properties = "".join(
                f'<prop type="x-{name.replace("_", "-")}">{_escaped(_shown(value))}</prop>'
                for name, value in (known if with_ids else known[:1])
            )
            sentences = (pair.source, pair.target)
            segments = "".join(
                f"<tuv xml:lang={tag}><seg>{_escaped(sentence)}</seg></tuv>"
                for tag, sentence in zip(tags, sentences, strict=True)
            )
            changed = sum(_FORBIDDEN.search(sentence) is not None for sentence in sentences)
            yield (f'<tu tuid="{number}">{properties}{segments}</tu>\n',), changed
        yield ("</body>\n</tmx>\n",), 0

    def read(self, *texts: RawText, languages: tuple[str, str]) -> Bitext:
        """A unit without one of the two languages is a pair with an empty side.

        Raises:
            MexmaError: It is no TMX, not well formed, has entities of its own, a segment of more than
                `LINE_LIMIT` characters, or not both languages; or more, and they are not stated.
        """
        ((pieces, where),) = texts
        reader = _Reader(where, languages)
        pairs = reader.pairs(pieces)
        first = list(islice(pairs, 1))  # which says the languages
        return Bitext(self.name, reader.languages, ((None, pair) for pair in chain(first, pairs)))


class _Reader:
    """Expat's events become pairs."""

    def __init__(self, where: str, languages: tuple[str, str]) -> None:
        self.languages = languages
        self._where = where
        self._found: list[Pair] = []
        self._units = self._whole = 0
        self._seen: dict[str, None] = {}  # languages, in order
        self._segments: dict[str, str] = {}
        self._properties: dict[str, Any] = {}
        self._language = self._property = self._root = ""
        self._text: list[str] | None = None  # of the segment or property that is open
        self._length = self._codes = self._depth = 0
        self._parser: Any = None

    def _begin(self, encoding: str | None) -> None:
        self._parser = parser = expat.ParserCreate(encoding)
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._characters
        parser.EntityDeclHandler = self._entity
        parser.SkippedEntityHandler = self._entity

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
            self._fail(
                f"no unit has both {' and '.join(self.languages)}; there are {', '.join(self._seen)}",
                "state two of these with --source-lang and --target-lang",
            )

    def _steps(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        """The document in small steps, in an encoding that expat knows."""
        start = b""
        while len(start) < _START and b"?>" not in start and (piece := next(pieces, b"")):
            start += piece
        pieces = chain([start], pieces)
        declared = _DECLARED.match(start.removeprefix(codecs.BOM_UTF8))
        decoder = self._decoder(declared[1].decode("latin-1")) if declared else None
        self._begin("utf-8" if decoder else None)
        for piece in pieces:
            for at in range(0, len(piece), _STEP):
                step = piece[at : at + _STEP]
                yield self._decoded(decoder, step) if decoder else step
        if decoder:
            yield self._decoded(decoder, b"", final=True)

    def _decoder(self, encoding: str) -> codecs.IncrementalDecoder | None:
        """What decodes an encoding that expat does not know."""
        try:
            found = codecs.lookup(encoding)
            if found.name in _EXPATS:
                return None
            if found._is_text_encoding and found.name not in _NO_CHARSETS:
                return codecs.getincrementaldecoder(encoding)()
        except (LookupError, ValueError):  # also a name with a NUL
            pass
        raise MexmaError(
            f"{self._where}: no encoding is known that is called {shortened(encoding)}", "convert it to UTF-8"
        )

    def _decoded(self, decoder: codecs.IncrementalDecoder, step: bytes, final: bool = False) -> bytes:
        try:
            return decoder.decode(step, final).encode("utf-8")
        except UnicodeError as error:
            raise MexmaError(
                f"{self._where} is not in the encoding that it states: {error}", "state the right one"
            ) from None

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
                self._fail(f"this is XML, and no TMX: its root is {name}")
        if name == "tu":
            self._segments, self._properties, self._language = {}, {}, ""
        elif name == "tuv":
            self._language = _flores(attributes.get("xml:lang") or attributes.get("lang") or UNSTATED)
        elif name == "prop" and not self._language:
            self._property = attributes.get("type", "")
            self._text, self._length = [], 0
        elif name == "seg":
            self._text, self._length, self._codes = [], 0, 0
        elif name in _CODES:
            self._codes += 1

    def _characters(self, text: str) -> None:
        if self._text is None or self._codes:
            return
        self._length += len(text)
        if self._length > LINE_LIMIT:
            self._fail(f"a segment of more than {LINE_LIMIT:,} characters", "is it split into sentences?")
        self._text.append(text)

    def _end(self, name: str) -> None:
        self._depth -= 1
        if name in _CODES:
            self._codes -= 1
        elif name in ("seg", "prop") and self._text is not None:
            text, self._text = "".join(self._text), None
            if name == "seg":
                self._segments.setdefault(self._language, text)
                if len(self._segments) > _LANGUAGES:
                    self._fail(f"a unit in more than {_LANGUAGES:,} languages", "is it a TMX?")
            else:
                field = self._property.removeprefix("x-").replace("-", "_")
                if field in _FIELDS and self._property.startswith("x-"):
                    self._properties[field] = parsed(field, text)
        elif name == "tuv":
            self._language = ""
        elif name == "tu":
            if len(self._seen) < _LANGUAGES:
                self._seen |= dict.fromkeys(self._segments)
            self._units += 1
            if UNSTATED in self.languages:
                self._choose()
            sides = [self._segments.get(language, "") for language in self.languages]
            self._whole += all(language in self._segments for language in self.languages)
            self._found.append(pair_of(self._properties, *sides))

    def _choose(self) -> None:
        """The languages that are not stated, from the first unit."""
        others = [language for language in self._segments if language not in self.languages]
        wanted = self.languages.count(UNSTATED)
        if len(others) != wanted:
            self._fail(
                f"the first unit has {', '.join(self._segments) or 'no segments'}; two languages are read",
                "state them with --source-lang and --target-lang",
            )
        source, target = ((others.pop(0) if side == UNSTATED else side) for side in self.languages)
        self.languages = source, target


@lru_cache(maxsize=1024)
def _flores(tag: str) -> str:
    """The FLORES-200 code of a language in a document; itself if it is none that is known."""
    try:
        return resolve(tag)
    except MexmaError:
        return tag


def _escaped(text: str) -> str:
    """As XML has it, without the characters that it forbids."""
    text = escape(_FORBIDDEN.sub("", text), quote=False)
    return text.replace("\r", "&#13;")  # a plain one would be read as a line break


def _shown(value: Any) -> str:
    """As `shown`, but scores with no more digits than a reader of translation memories wants."""
    return shown(round(value, DIGITS) if isinstance(value, float) else value)


def bcp47(code: str) -> str:
    """The usual BCP-47 tag of a FLORES-200 code: `fr` for `fra_Latn`, `zh-Hant` for `zho_Hant`."""
    import langcodes  # 10 ms

    if code == UNSTATED:
        return UNSTATED
    tag = code.replace("_", "-")
    macro = langcodes.standardize_tag(tag, macro=True)
    for wide in (macro, langcodes.standardize_tag(tag)):
        short = langcodes.Language.get(wide, normalize=False).simplify_script().to_tag()
        if resolve(short) == code:
            return str(short)
    return tag
