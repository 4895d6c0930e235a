"""Documents in a form that can be split: UTF-8, mojibake repaired, NFC, no control characters, and without
tags and entities of HTML.

Text in angle brackets such as `a < b`, `<3`, `List<Object>` and `<file>` is no HTML: names, attributes and,
where a name is a common word, the end of the element must be those of HTML.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Sequence
from functools import cache, cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np

from mexma_cli.text.characters import Characters
from mexma_cli.text.hyphens import with_visible_hyphens, without_line_hyphens
from mexma_cli.text.normalise import normal_form
from mexma_cli.text.pages import decode_page

if TYPE_CHECKING:
    import regex

_BREAKS = "\v\f\x1c\x1d\x1e\x85\u2028\u2029"
_CONTROLS = "".join(
    chr(code) for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\t\n" + _BREAKS
)
_DIRECTIONS = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
_INVISIBLE = "\xad\u200b\u2060\ufeff" + _DIRECTIONS
_MAP = dict.fromkeys(map(ord, _BREAKS), "\n") | dict.fromkeys(map(ord, _CONTROLS + _INVISIBLE))
_TIMES_ESCAPED = 4
_SECOND = re.escape(bytes({*range(0x80, 0xC0)} - {0x98}).decode("cp1251") + "\x98")
_CYRILLIC = re.compile(
    rf"(?=(?:[РС][{_SECOND}])*[РС](?![ЁЄІЇҐЎЈЅ])[{_SECOND}])"
    rf"(?:[РС][{_SECOND}](?:В[{_SECOND}]|в[{_SECOND}]{{2}})*){{2,}}"
)
"""Runs of Cyrillic in UTF-8 that was read as Windows-1251; ftfy repairs lines that are such as a whole."""
_MOJIBAKE = re.compile("[ÂÃ][\u0080-\u00bf]|â€|Ð[\u0080-\u00bf]Ñ|ï»¿")
_LAST_CAPITAL = re.compile(
    "(?<=[A-ZÀ-ÖØ-ÞĞİŞ][À-ÖØ-Þ])(?=[–—]|[»”’…\u00a0](?!\\w))|(?<=[\\d\\s]Å)(?=[²³](?!\\w))"
)
"""Places at which good text looks like mojibake: behind the last letter of a word in capitals (``«MAÇÃ»``),
and in ``Å²``."""
_LOST = re.compile("锟斤拷")
"""U+FFFD twice in UTF-8, read as GBK."""
_OWN = {"cp1256": b"\xd8\xd9\xda\xdb", "cp1255": b"\xd7", "koi8-r": b"\xd0\xd1"}
"""Encodings that ftfy does not know -> first bytes of the letters of their scripts in UTF-8."""
_THAI = re.compile(rf"(?:เ[ธน][{re.escape(bytes(range(0x80, 0xC0)).decode('cp874', 'ignore'))}]){{2}}")
"""Thai in UTF-8 that was read as Windows-874."""
_NO_LANGUAGE = (
    r"Ă[ŚŤŽŹśťžźŁĄŻłąĽľż]|Ä[ŚŹśźŁĄŻłążŒœŸƒØŖÆøŗæ]|(?<!\p{L})Ä[Ťť]|Ĺ[ŚŹśźŁĄŞŻłąşżťžľ]"
    "|[ÃÅ][ŠŒŽšœžŸƒŖŗ]|Ć[ØŖÆøŗæ]"
)
"""Letters of different alphabets, as far as one stands for a first byte of UTF-8, and one for a second."""
_CONTROL = 1 << 15
"""The bit of characters in `_MAP`."""
_LINES = """address article aside blockquote body button canvas caption center dd details dialog dir div dl dt
    fieldset figcaption figure footer form frame frameset h1 h2 h3 h4 h5 h6 head header hgroup hr html
    iframe legend li main menu nav noframes noscript object ol optgroup option output p pre search
    section select source summary table tbody td template textarea tfoot th thead title tr ul video"""
_PARTS = """a abbr acronym area audio b base basefont bdi bdo big blink cite code col colgroup data datalist
    del dfn em embed font i img input ins kbd label link map mark marquee meta meter nobr o:p param picture
    progress q rp rt ruby s samp script slot small span strike strong style sub sup svg time track tt u
    var wbr"""
_COMMON = """address area base button caption code data details dialog dir form frame image input label
    legend link main map mark menu meta object option output param
    picture progress section select slot source summary table template time title track var video"""
_BREAKING = frozenset(_LINES.split())
"""Elements at whose ends a sentence ends, too."""
NAMES = _BREAKING | frozenset(_PARTS.split()) | {"br"}
"""The elements of HTML, old ones included."""
_WORDS = frozenset(_COMMON.split())
"""Names that stand in angle brackets for something to fill in: `cp <source> <dir>`."""
_FLAGS = (
    "allowfullscreen|async|autofocus|autoplay|checked|compact|controls|defer|disabled|hidden|inert|ismap|itemscope|"
    "loop|multiple|muted|noresize|noshade|novalidate|nowrap|open|playsinline|readonly|required|reversed|selected"
)
_QUOTED = r"{0}(?:[^{0}<]*+{0}|(?=[^{0}]{{0,300}}{0})[^{0}<]*+<[^{0}]*+{0})"
_VALUE = rf"""(?:{_QUOTED.format('"')}|{_QUOTED.format("'")}|[^\s"'<>]++)"""
# An attribute matches in one way alone. No possessive group: Python before 3.11.5 has bugs in them.
_ATTRIBUTES = rf"(?:(?:\s++|(?<=[\"']))(?:[a-z@:_][\w:.@-]*+\s*+=\s*+{_VALUE}|(?:{_FLAGS})(?=[\s/>])))*"
_HTML = re.compile(
    rf"""<(?:
    (?P<blank>br(?:\s[^<>]*)?/?>(?:\s*<br(?:\s[^<>]*)?/?>)+)
    | (?P<nothing>!--(?:(?!<!--).)*?--> | !doctype[^<>]*> | \?xml[^<>]*> | !\[CDATA\[
      | !\[(?:end)?if[^<>]*> )
    | (?P<program>script|style)\b[^<>]*>(?:(?!<(?:script|style)\b).)*?</(?P=program)\s*>
    | (?P<end>/?)(?P<name>[a-z][a-z0-9:]*+)(?P<attributes>{_ATTRIBUTES})\s*+/?\s*+>
    | (?P<cut>a|img|div|span|p|font|table|td|iframe)\s+[a-z:-]+\s*=[^<>]*\Z
    )""",
    re.IGNORECASE | re.DOTALL | re.VERBOSE,
)
_END = re.compile(r"</([a-z][a-z0-9:]*)\s*>", re.IGNORECASE)
_NBSP = re.compile(r"&nbsp(?![\w;])")
MARKUP = (
    rf"(?i:</?(?:{'|'.join(sorted(NAMES, key=len, reverse=True))}){_ATTRIBUTES}\s*+/?>)"
    r"|(?<!\w)</?[A-Za-z][\w:-]*+(?:\s[^<>]{0,300}=[^<>]{0,300})?\s*/?>|<!--"
    r"|&(?:[A-Za-z]{2,8}|#[0-9]{1,6}|#x[0-9A-Fa-f]{1,5});"
)
"""A pattern for the rule `html`: tags, those of other XML, too, and entities."""


def decode(document: bytes, charset: str | None = None) -> str | None:
    """A document as text, its line ends ``\\n``; None if it is in no known encoding."""
    try:
        text = decode_page(document, charset, html=False) if charset else document.decode("utf-8")
    except UnicodeDecodeError:
        text = None
    if text is None:
        return None
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def repair(
    texts: Sequence[str], repaired: Counter[str], keep_html: bool = False, wrapped: Collection[int] = ()
) -> list[str]:
    """Texts as people meant them, in NFC; `repaired` counts those that were repaired: `tags`, `entities`,
    `mojibake`, `control`, `composed`; and the `words` put together that a hyphen and a line end divided, in
    those in the places `wrapped`.

    Tags and entities of HTML are taken out, unless `keep_html`, also those that are escaped once more.
    Mojibake (UTF-8 that was read as another encoding) is repaired by ftfy (Speer, 2019). Control characters,
    soft hyphens, marks of direction and invisible spaces are removed; the control characters that end lines
    or pages become line ends. Nothing else changes: text that needs no repair comes back as it is.
    """
    found = list(texts)

    def change(name: str, place: int, text: str) -> None:
        if text != found[place]:
            found[place] = text
            repaired[name] += 1

    for place, text in enumerate(found):
        if ("&" in text or "<" in text) and not keep_html:
            found[place] = _without_html(text, repaired)
    characters, before = Characters(found), repaired["mojibake"]
    for place in np.flatnonzero(may_be_mojibake(characters)).tolist():
        change("mojibake", place, _without_mojibake(found[place]))
    if repaired["mojibake"] > before:
        characters = Characters(found)
    for place in np.flatnonzero(_has_control(characters)).tolist():
        text = with_visible_hyphens(found[place]) if place in wrapped else found[place]
        change("control", place, text.translate(_MAP))
    for place, text in enumerate(found):
        if not unicodedata.is_normalized("NFC", text):
            change("composed", place, normal_form("NFC", text))
    found, words = without_line_hyphens(found, wrapped)
    repaired.update({"words": words} if words else {})
    return found


def _without_html(text: str, repaired: Counter[str]) -> str:
    found: set[str] = set()
    for _ in range(_TIMES_ESCAPED):
        # Where all tags are escaped, they are markup that was escaped as a whole, and not text about HTML.
        tagless = text if "tags" in found else without_tags(text)
        plain = without_entities(tagless)
        found |= {"tags"} if tagless != text else set()
        found |= {"entities"} if plain != tagless else set()
        if plain == text:
            break
        text = plain
    repaired.update(found)
    return text


def _without_mojibake(text: str) -> str:
    from ftfy import TextFixerConfig, fix_encoding

    config = TextFixerConfig(unescape_html=False, normalization=None, explain=False)
    lines = text.split("\n")
    for place in np.flatnonzero(may_be_mojibake(Characters(lines))).tolist():
        pieces = (fix_encoding(piece, config) for piece in _LAST_CAPITAL.split(lines[place]))
        lines[place] = _CYRILLIC.sub(_cyrillic, "".join(pieces))
    return "\n".join(lines)


def _cyrillic(found: re.Match[str]) -> str:
    try:
        return found[0].encode("sloppy-windows-1251").decode("utf-8")
    except UnicodeError:
        return found[0]


def has_mojibake(sentences: Sequence[str], texts: Characters) -> np.ndarray:
    """Which sentences have mojibake, also where it cannot be repaired because half of it was, bool [N]."""
    found = texts.having(np.array(_unwritten(texts), dtype=np.int64))
    found |= texts.having(_in_own_script(texts))
    for first, pattern in (("เ", _THAI), ("锟", _LOST)):
        for row in texts.containing(first) if first in texts.text else ():
            found[row] |= pattern.search(sentences[row]) is not None
    for row in np.flatnonzero(may_be_mojibake(texts) & ~found).tolist():
        if _is_bad(sentences[row]):
            found[row] = any(map(_is_bad, _LAST_CAPITAL.split(sentences[row])))
    return found


def _is_bad(text: str) -> bool:
    from ftfy.badness import BADNESS_RE

    # Mojibake begins with a letter; what begins with a quotation mark is found in good text, too.
    return bool(_MOJIBAKE.search(text)) or any(bad[0].isalpha() for bad in BADNESS_RE.findall(text))


def _in_own_script(texts: Characters) -> np.ndarray:
    """Places of three letters in UTF-8 that were read in an encoding of their own script."""
    first, second = _own_bits()

    def letters(places: np.ndarray) -> np.ndarray:
        return np.asarray(first[points[places]] & second[points[places + 1]])

    points = np.append(texts.points, np.zeros(6, dtype=np.uint32))
    places = texts.unusual
    places = places[letters(places) > 0]
    return np.asarray(places[(letters(places) & letters(places + 2) & letters(places + 4)) > 0])


@cache
def _own_bits() -> tuple[np.ndarray, np.ndarray]:
    """Bits of the first and second bytes of `_OWN`, as `_bits` has them: uint8 [0x110000] each."""
    first, second = np.zeros((2, 0x110000), dtype=np.uint8)
    for number, (encoding, begin) in enumerate(_OWN.items()):
        for table, codes in ((first, begin), (second, bytes(range(0x80, 0xC0)))):
            table[list(map(ord, codes.decode(encoding, "ignore")))] |= 1 << number
    return first, second


def may_be_mojibake(texts: Characters) -> np.ndarray:
    """Which texts may have mojibake, bool [N]."""
    return texts.having(_possible(texts)[0])


def _possible(texts: Characters) -> tuple[np.ndarray, np.ndarray]:
    """Places where mojibake may begin, int64 [P], and in which encodings, as bits, uint16 [P].

    All mojibake has a first byte of UTF-8 and then a second one, both read in one of the encodings that ftfy
    knows, or a control character. That is much faster to look for than what ftfy looks for, and is in little
    else.
    """
    first, second, _ = _bits()
    places = texts.unusual
    marks = first[texts.points[places]]
    both = marks & second[texts.points[np.minimum(places + 1, len(texts.points) - 1)]]
    begins = (both > 0) | ((marks & np.uint16(_CONTROL)) > 0)
    return places[begins], both[begins]


def _unwritten(texts: Characters) -> list[int]:
    """Places of mojibake that nobody would have written, in whatever language."""
    from ftfy.chardata import CHARMAP_ENCODINGS

    _, second, long = _bits()
    places, encodings = _possible(texts)
    third = texts.points[np.minimum(places + 2, len(texts.points) - 1)]
    encodings &= second[third] | ~long[texts.points[places]]
    left = np.flatnonzero(encodings)
    return [
        place
        for place, bits in zip(places[left].tolist(), encodings[left].tolist(), strict=True)
        if any(
            bits >> number & 1 and _is_unwritten(texts.text, place, encoding)
            for number, encoding in enumerate(CHARMAP_ENCODINGS)
        )
    ]


def _is_unwritten(text: str, place: int, encoding: str) -> bool:
    found = _unwritten_in(encoding).match(text, place)
    if found is None:
        return False
    try:
        meant = found[0].encode(encoding).decode("utf-8")
    except UnicodeError:
        return False
    if meant == "\ufffd":
        return True
    written = [letter for letter in meant if unicodedata.category(letter)[0] in "LM"]
    scripts = {unicodedata.name(letter, "").split(" ")[0] for letter in written}
    if len(scripts) > 1 or (found["among_latin"] and scripts - {"LATIN"}):
        return False
    return all(
        "\u00a0" <= sign <= "\u00bf" or "\u2010" <= sign <= "\u2122" for sign in set(meant) - set(written)
    )


@cache
def _unwritten_in(encoding: str) -> regex.Pattern[str]:
    """Characters of UTF-8 that were read in an encoding, and that nobody writes.

    A capital letter behind a small one (``vyÅ¡``); two such characters side by side (``Î½Îµ``); Greek and
    Cyrillic that touch Latin letters (``gerΓ¤t``); a symbol or a line of a table in a word (``ger√§t``); two
    letters that no language has both (``Ĺľ``); U+FFFD (``пїЅ``).
    """
    import regex

    def read_as(codes: range) -> str:
        characters = bytes(codes).decode(encoding, "ignore")
        return "[" + "".join(f"\\U{ord(character):08x}" for character in characters) + "]"

    lost = "\ufffd".encode().decode(encoding, "ignore")
    second = read_as(range(0x80, 0xC0))
    one = f"(?:{read_as(range(0xC2, 0xE0))}{second}|{read_as(range(0xE0, 0xF0))}{second}{{2}})"
    return regex.compile(
        rf"(?<=\p{{Ll}})(?=\p{{Lu}}){one}|{one}{{2}}"
        rf"|(?P<among_latin>(?=[\p{{Greek}}\p{{Cyrillic}}])(?:(?<=\p{{Latin}}){one}|{one}(?=\p{{Latin}})))"
        rf"|{regex.escape(lost)}"
        rf"|(?=\p{{S}})(?:(?<=\p{{L}}{{2}}){one}|(?<=\p{{L}}){one}(?=\p{{L}}))|{_NO_LANGUAGE}"
    )


def _has_control(texts: Characters) -> np.ndarray:
    """Which texts have characters of `_MAP`, bool [N]."""
    places = texts.unusual
    return texts.having(places[(_bits()[0][texts.points[places]] & np.uint16(_CONTROL)) > 0])


@lru_cache(maxsize=1)
def _bits() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A bit for each encoding, where a character is a first byte of UTF-8 read in it, a second one, or a
    first one of three or more: three uint16 [0x110000], of which the first also has the bit `_CONTROL`."""
    from ftfy.chardata import CHARMAP_ENCODINGS

    first, second, long = (np.zeros(0x110000, dtype=np.uint16) for _ in range(3))
    tables = (first, range(0xC2, 0xF5)), (second, range(0x80, 0xC0)), (long, range(0xE0, 0xF5))
    for number, encoding in enumerate(CHARMAP_ENCODINGS):
        for table, codes in tables:
            characters = bytes(codes).decode(encoding, "ignore")
            table[list(map(ord, characters))] |= np.uint16(1 << number)
    first[list(_MAP)] |= np.uint16(_CONTROL)
    return first, second, long


def without_tags(text: str) -> str:
    """A text without tags, comments, scripts and styles of HTML.

    Line ends stand where an element begins or ends that has lines of its own (a paragraph, a cell), and for
    several `br`; a single `br` is a space, and all others vanish.
    """
    return _HTML.sub(_Text(text).instead, text) if "<" in text else text


def without_entities(text: str) -> str:
    """A text with characters in place of HTML's entities."""
    from ftfy.fixes import unescape_html

    return str(unescape_html(_NBSP.sub(" ", text))) if "&" in text else text


class _Text:
    """A text, and what stands in place of its tags."""

    def __init__(self, text: str) -> None:
        self._text = text

    @cached_property
    def _last_ends(self) -> dict[str, int]:
        """Where the last end of an element of each name is."""
        return {found[1].lower(): found.start() for found in _END.finditer(self._text)}

    def instead(self, found: re.Match[str]) -> str:
        if found["blank"] or found["program"]:
            return "\n"
        if found["nothing"] or found["cut"]:
            return ""
        name = found["name"].lower()
        is_end_or_whole = found["end"] or found["attributes"] or self._last_ends.get(name, -1) > found.start()
        if name not in NAMES or not (is_end_or_whole or self._is_surely_tag(found.start(), found["name"])):
            return found[0]
        return " " if name == "br" else "\n" if name in _BREAKING else ""

    def _is_surely_tag(self, start: int, name: str) -> bool:
        """Whether a tag without attributes and end is no placeholder, and no type: `List<A>`."""
        if name.lower() in _WORDS:
            return False
        sticks = start > 0 and (self._text[start - 1].isalnum() or self._text[start - 1] == "_")
        return not sticks or name in ("p", "P") or (len(name) > 1 and not name.istitle())
