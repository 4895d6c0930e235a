"""JSON lines: an object a pair."""

from __future__ import annotations

import json
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
    bitext_format,
    pair_of,
    typed,
)
from mexma_cli.formats.tsv import shortened
from mexma_cli.text.lines import is_blank

if TYPE_CHECKING:
    from mexma_cli.text.writing import Chunk

_SURROGATES = re.compile("[\ud800-\udfff]")


@bitext_format
class Jsonl(BitextFormat):
    """One JSON object a line, named as in `MinedPair` or `AlignedPair`; sentences stay as they are."""

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
        return Bitext(self.name, languages, text.records(enumerate(text.lines(), 1), _pair))


def object_lines(rows: Iterable[Mapping[str, Any]]) -> Iterator[Chunk]:
    """For `text.writing.write_chunks`: an object a line; a number that is none becomes null."""
    for row in rows:
        finite = {
            name: None if isinstance(value, float) and math.isnan(value) else value
            for name, value in row.items()
        }
        yield (json.dumps(finite, ensure_ascii=False) + "\n",), 0


def _pair(line: str, where: str) -> Pair | str:
    """An object with the texts `source` and `target`; null is an empty one."""
    if is_blank(line):
        return BLANK
    try:
        found = json.loads(line, parse_int=float, parse_constant=_nothing)  # of any length
    except (ValueError, RecursionError):
        found = None
    known = found if isinstance(found, dict) else {}
    sides = [known[name] for name in ("source", "target") if name in known]
    texts = [side or "" for side in sides if side is None or isinstance(side, str)]
    if len(texts) != 2:
        raise MexmaError(
            f"{where}: not an object with the texts `source` and `target`: {shortened(line)}",
            "the first line is an object, so each must be one as `mexma mine --format jsonl` writes them",
        )
    if any(map(_SURROGATES.search, texts)):
        return "lines with half a character (a lone surrogate)"
    return pair_of(typed(known), *texts)


def _nothing(constant: str) -> None:
    """NaN and Infinity are no values that are known."""
