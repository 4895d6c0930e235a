"""Tags and entities of HTML that are left in text: taken out where they are HTML, and nowhere else.

`a < b`, `<3`, `List<Object>`, `<file>` and other text with angle brackets is none: names, attributes and,
where a name is a common word, the end of the element must be those of HTML.
"""

from __future__ import annotations

import re
from functools import cached_property

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
_VALUE = r"""(?:"[^"<]*+"|"[^"]{0,300}"|'[^'<]*+'|'[^']{0,300}'|[^\s"'<>]++)"""
_ATTRIBUTES = rf"(?:(?:\s++|(?<=[\"']))(?:[a-z@:_][\w:.@-]*+\s*+=\s*+{_VALUE}|(?:{_FLAGS})(?=[\s/>])))*+"
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
