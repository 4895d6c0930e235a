"""JSON lines: an object a pair."""

from __future__ import annotations

import json
import logging
import math
import re
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from mexma_cli.errors import MexmaError
from mexma_cli.formats.bitext import (
    BLANK,
    Bitext,
    BitextFormat,
    Pair,
    RawText,
    begun,
    bitext_format,
    pair_of,
    typed,
)
from mexma_cli.formats.tmx import sides_among
from mexma_cli.formats.tsv import shortened
from mexma_cli.text.lines import is_blank

if TYPE_CHECKING:
    from mexma_cli.text.writing import Chunk

log = logging.getLogger(__name__)
_SURROGATES = re.compile("[\ud800-\udfff]")


@bitext_format
class Jsonl(BitextFormat):
    """One JSON object a line, named as in `MinedPair` or `AlignedPair`; sentences stay as they are.

    Also read: `{"translation": {"en": "...", "fr": "..."}}`, as Hugging Face's `datasets` writes it, and
    objects that have the languages themselves.
    """

    name = "jsonl"
    endings = (".jsonl",)
    ids = "always"
    about = "one object a line, with all ids"

    def write(
        self, pairs: Iterable[Pair], languages: tuple[str, str], with_ids: bool = False
    ) -> Iterator[Chunk]:
        for pair in pairs:
            yield (json.dumps(pair._asdict(), ensure_ascii=False) + "\n",), 0

    def recognises(self, start: bytes) -> bool:
        """A line that begins with a brace and has no tab is no TSV."""
        line = start.removeprefix(BOM_UTF8).lstrip().partition(b"\n")[0]
        return line.startswith(b"{") and b"\t" not in line

    def read(self, *texts: RawText, languages: tuple[str, str]) -> Bitext:
        (text,) = texts
        sides = _Sides(languages, text)
        records = text.records(enumerate(text.lines(), 1), sides.pair)
        return begun(self.name, records, lambda: sides.languages)


def object_lines(rows: Iterable[Mapping[str, Any]]) -> Iterator[Chunk]:
    """For `text.writing.write_chunks`: an object a line; a number that is none becomes null."""
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
        self._text, self._is_first = text, True

    def pair(self, line: str, where: str) -> Pair | str:
        """A pair from the texts `source` and `target`, or of two languages; null is an empty one."""
        if is_blank(line):
            return BLANK
        try:
            # Integers of any length; NaN and Infinity are no values that are known.
            found = json.loads(line, parse_int=float, parse_constant=lambda _: None)
        except (ValueError, RecursionError):
            found = None
        names = every = found if isinstance(found, dict) else {}
        used = {"source", "target"}
        sides = [names[name] for name in ("source", "target") if name in names]
        if not sides and isinstance(inner := names.get("translation", names), dict):
            # By languages; those that are not stated are the first object's, which has as many.
            tags = [tag for tag, text in inner.items() if isinstance(text, str | None)]
            found, self.languages = sides_among(self.languages, tags, where, self._text.options)
            sides = [inner[tag] if tag else None for tag in found]
            every, used = names | inner, {*found, "translation"}
            if self._is_first and "" in found:
                lacking = self.languages[found.index("")]
                log.warning("%s: no text in %s; there are %s", where, lacking, ", ".join(map(str, tags)))
        self._is_first = False
        texts = [side or "" for side in sides if side is None or isinstance(side, str)]
        if len(texts) != 2:
            raise MexmaError(
                f"{where}: not an object with the texts `source` and `target`, or of two languages: "
                f"{shortened(line)}",
                "the first line is an object, so each must be one as `mexma mine --format jsonl` writes them",
            )
        if any(map(_SURROGATES.search, texts)):
            return "lines with half a character (a lone surrogate)"
        pair = pair_of(typed(names), *texts)
        used |= {*pair._fields}
        self._text.count_others((name, value) for name, value in every.items() if name not in used)
        return pair
