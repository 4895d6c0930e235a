"""JSON lines: an object a pair."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from mexma_cli.errors import MexmaError
from mexma_cli.formats.bitext import BitextFormat, Pair, ScoredPair, bitext_format
from mexma_cli.formats.tsv import one_field, shortened

if TYPE_CHECKING:
    from mexma_cli.text.writing import Chunk

_SURROGATES = re.compile("[\ud800-\udfff]")
_HINT = "the first line is an object, so each must be one as `mexma mine --format jsonl` writes them"


@bitext_format
class Jsonl(BitextFormat):
    """One JSON object a line, named as in `MinedPair` or `AlignedPair`; sentences stay as they are."""

    name = "jsonl"
    endings = (".jsonl",)
    ids = "always"
    about = "an object a line, its sentences as they are"

    def write(
        self, pairs: Iterable[Pair], languages: tuple[str, str], with_ids: bool = False
    ) -> Iterator[Chunk]:
        for pair in pairs:
            yield (json.dumps(pair._asdict(), ensure_ascii=False) + "\n",), 0

    def recognises(self, line: str) -> bool:
        """A line that begins with a brace and has no tab is no TSV."""
        return line.startswith("{") and "\t" not in line

    def read(self, lines: Iterator[str], where: str) -> Iterator[ScoredPair]:
        for pair in _pairs(lines, where):
            if not math.isfinite(pair.score):
                raise MexmaError(f"{where}, line {pair.line}: `score` is not there, or not a number", _HINT)
            yield pair

    def read_sides(self, lines: Iterator[str], where: str) -> Iterator[tuple[str, str]]:
        return ((pair.source, pair.target) for pair in _pairs(lines, where))


def _pairs(lines: Iterable[str], where: str) -> Iterator[ScoredPair]:
    """Objects with the texts `source` and `target`; a score that is not there, or not a number, is nan.

    Sentences come as by `one_field`, so that they are as in TSV.

    Raises:
        MexmaError: A line that is no such object.
    """
    for number, line in enumerate(lines, 1):
        try:
            found = json.loads(line, parse_int=float)  # of any length
        except (ValueError, RecursionError):
            found = None
        sides = [found.get(side) for side in ("source", "target")] if isinstance(found, dict) else []
        texts = [text for text in sides if isinstance(text, str) and not _SURROGATES.search(text)]
        if len(texts) < 2:
            raise MexmaError(
                f"{where}, line {number}: not an object with the texts `source` and `target`: "
                f"{shortened(line)}",
                _HINT,
            )
        score = found["score"] if isinstance(found.get("score"), float) else math.nan
        yield ScoredPair(score, one_field(texts[0]), one_field(texts[1]), number)
