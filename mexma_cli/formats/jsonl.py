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
    MALFORMED,
    Bitext,
    BitextFormat,
    Pair,
    RawText,
    Record,
    bitext_format,
    pair_of,
    typed,
)
from mexma_cli.formats.tsv import BLANK, shortened
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
        return Bitext(self.name, languages, _records(*texts))


def object_lines(rows: Iterable[Mapping[str, Any]]) -> Iterator[Chunk]:
    """For `text.writing.write_chunks`: an object a line; a number that is none becomes null."""
    for row in rows:
        finite = {
            name: None if isinstance(value, float) and math.isnan(value) else value
            for name, value in row.items()
        }
        yield (json.dumps(finite, ensure_ascii=False) + "\n",), 0


def _records(text: RawText) -> Iterator[Record]:
    """Objects with the texts `source` and `target`; null is an empty one."""
    pairs, wrong = 0, None
    for number, line in enumerate(text.lines(), 1):
        if is_blank(line):
            yield from text.no_pair(BLANK)
            continue
        try:
            found = json.loads(line, parse_int=float, parse_constant=_nothing)  # of any length
        except (ValueError, RecursionError):
            found = None
        known = found if isinstance(found, dict) else {}
        sides = [known[name] for name in ("source", "target") if name in known]
        texts = [side or "" for side in sides if side is None or isinstance(side, str)]
        if len(texts) == 2 and any(map(_SURROGATES.search, texts)):
            yield from text.no_pair("lines with half a character (a lone surrogate)")
        elif len(texts) == 2:
            pairs += 1
            yield line, pair_of(typed(known), *texts)
        else:
            error = MexmaError(
                f"{text.where}, line {number}: not an object with the texts `source` and `target`: "
                f"{shortened(line)}",
                "the first line is an object, so each must be one as `mexma mine --format jsonl` writes them",
            )
            if not text.each_line:
                raise error
            wrong = wrong or error
            yield from text.no_pair(MALFORMED)
    if wrong and not pairs:
        raise wrong


def _nothing(constant: str) -> None:
    """NaN and Infinity are no values that are known."""
