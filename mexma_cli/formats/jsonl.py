"""JSON lines: an object a pair."""

from __future__ import annotations

import json
import logging
import math
import re
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any

from mexma_cli.errors import MexmaError
from mexma_cli.formats.bitext import (
    BLANK,
    BitextFormat,
    OpenedPairs,
    Pair,
    RawText,
    Record,
    begun,
    bitext_format,
    pair_of,
    typed,
)
from mexma_cli.formats.sides import sides_among, sides_named
from mexma_cli.formats.tsv import shortened
from mexma_cli.text.lines import is_blank

if TYPE_CHECKING:
    from mexma_cli.text.writing import Chunk

log = logging.getLogger(__name__)
_SURROGATES = re.compile("[\ud800-\udfff]")


@bitext_format
class Jsonl(BitextFormat):
    """One JSON object a line, named as in `MinedPair` or `AlignedPair`; sentences stay as they are.

    Also read: objects whose sides have other names (`sides.sides_named`) or those of their languages, and
    `{"translation": {"en": "...", "fr": "..."}}`, as Hugging Face's `datasets` writes it.
    """

    name = "jsonl"
    endings = (".jsonl",)
    ids = "always"
    about = "one object a line, with all ids"

    def write(
        self, pairs: Iterable[Pair], languages: tuple[str, str], with_ids: bool = False
    ) -> Iterator[Chunk]:
        return object_lines(pair._asdict() for pair in pairs)

    def recognises(self, start: bytes) -> bool:
        """A line that begins with a brace and has no tab is no TSV."""
        line = start.removeprefix(BOM_UTF8).lstrip().partition(b"\n")[0]
        return line.startswith(b"{") and b"\t" not in line

    def read(self, *texts: RawText, languages: tuple[str, str]) -> OpenedPairs:
        (text,) = texts
        sides = _Sides(languages, text)
        records = text.records(enumerate(text.lines(), 1), sides.pair)
        return begun(self.name, chain(records, sides.refuse_one_side()), lambda: sides.languages)


def object_lines(rows: Iterable[Mapping[str, Any]]) -> Iterator[Chunk]:
    """Yield JSON objects, one a line, for `text.writing.write_chunks`; nan becomes null."""
    for row in rows:
        finite = {
            name: None if isinstance(value, float) and math.isnan(value) else value
            for name, value in row.items()
        }
        yield (json.dumps(finite, ensure_ascii=False) + "\n",), 0


class _Sides:
    """The texts of source and target in objects.

    Attributes:
        languages: Codes as the user wrote them, or those that were found.
    """

    def __init__(self, languages: tuple[str, str], text: RawText) -> None:
        self.languages = languages
        self._text, self._lacking = text, ""
        self._sides: set[int] | None = None

    def pair(self, line: str, where: str) -> Pair | str:
        """A pair from the texts `source` and `target`, or of two languages; null is an empty one."""
        if is_blank(line):
            return BLANK
        try:
            # Integers of any length; NaN and Infinity are no values that are known.
            found = json.loads(line, parse_int=float, parse_constant=lambda _: None)
        except (ValueError, RecursionError):
            found = None
        names = fields = found if isinstance(found, dict) else {}
        sides = _named(names, self.languages)
        if not sides and isinstance(inner := names.get("translation"), dict):
            fields, sides = inner, _named(inner, self.languages)
        if not sides:
            # By languages; those that are not stated are the first object's, which has as many.
            tags = _texts(fields)
            sides, self.languages = sides_among(self.languages, tags, where, self._text.options)
            if self._sides is None and "" in sides:
                lacking = self.languages[sides.index("")]
                self._lacking = f"no text in {lacking}; there are {', '.join(map(str, tags))}"
                log.warning("%s: %s", where, self._lacking)
        self._sides = (self._sides or set()) | {place for place, side in enumerate(sides) if side}
        texts = [fields.get(side) or "" for side in sides]
        if len(texts) != 2:
            raise MexmaError(
                f"{where}: not an object with the texts `source` and `target`, or of two languages: "
                f"{shortened(line)}",
                "the first line is an object, so each must be one as `mexma mine --format jsonl` writes them",
            )
        if any(map(_SURROGATES.search, texts)):
            return "lines with half a character (a lone surrogate)"
        known = typed(names)
        pair = pair_of(known, *texts)
        every = names if fields is names else names | {"translation": None} | fields
        used = {*sides} | {name for name in pair._fields if known.get(name) is not None}
        self._text.count_others((name, value) for name, value in every.items() if name not in used)
        return pair

    def refuse_one_side(self) -> Iterator[Record]:
        """No pairs; refused, where the objects that were read have one side, in another language."""
        if self._lacking and len(self._sides or ()) < 2:
            options = self._text.options
            raise MexmaError(
                f"{self._text.where}: {self._lacking}", f"state which: {options}" if options else None
            )
        yield from ()


def _texts(fields: Mapping[str, Any]) -> list[str]:
    """The names of an object's fields that may be texts."""
    return [name for name, value in fields.items() if isinstance(value, str | None)]


def _named(fields: Mapping[str, Any], stated: tuple[str, str]) -> list[str]:
    """The fields that are named by both stated languages, or source and target, or as other tools call these;
    none without both."""
    names = _texts(fields)
    return [names[place] for place in sides_named(tuple(names), stated) or ()]
