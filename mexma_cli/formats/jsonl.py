"""JSON lines: an object a pair."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from mexma_cli.errors import MexmaError
from mexma_cli.formats.bitext import BitextFormat, Pair, ScoredPair, bitext_format, one_field, pair_of
from mexma_cli.formats.tsv import shortened

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
    about = "one object a line, with all ids"

    def write(
        self, pairs: Iterable[Pair], languages: tuple[str, str], with_ids: bool = False
    ) -> Iterator[Chunk]:
        for pair in pairs:
            yield (json.dumps(pair._asdict(), ensure_ascii=False) + "\n",), 0

    def recognises(self, line: str) -> bool:
        """A line that begins with a brace and has no tab is no TSV."""
        return line.startswith("{") and "\t" not in line

    def read(self, lines: Iterator[str], where: str) -> Iterator[ScoredPair]:
        """Sentences come as by `one_field`, so that they are as in TSV."""
        for number, found in enumerate(_objects(lines, where), 1):
            score = found.get("score")
            if not (isinstance(score, float) and math.isfinite(score)):
                raise MexmaError(f"{where}, line {number}: `score` is not there, or not a number", _HINT)
            yield ScoredPair(score, one_field(found["source"]), one_field(found["target"]), number)

    def read_pairs(self, lines: Iterator[str], where: str) -> Iterator[Pair]:
        for found in _objects(lines, where):
            known = {
                name: known for name, value in found.items() if (known := _known(name, value)) is not None
            }
            yield pair_of(known, found["source"], found["target"])


def object_lines(rows: Iterable[Mapping[str, Any]]) -> Iterator[Chunk]:
    """For `text.writing.write_chunks`: an object a line; a number that is none becomes null."""
    for row in rows:
        finite = {
            name: None if isinstance(value, float) and math.isnan(value) else value
            for name, value in row.items()
        }
        yield (json.dumps(finite, ensure_ascii=False) + "\n",), 0


def _known(name: str, value: Any) -> Any:
    """A value as it is in a pair; None if it is nothing of the kind."""
    if name.endswith("_document"):
        return str(value)
    if name.endswith("_lines") and isinstance(value, list):
        return tuple(int(line) for line in value if isinstance(line, float) and math.isfinite(line))
    if not (isinstance(value, float) and math.isfinite(value)):
        return None
    return int(value) if name.endswith(("_line", "_rank")) else value


def _objects(lines: Iterable[str], where: str) -> Iterator[dict[str, Any]]:
    """Objects with the texts `source` and `target`.

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
        yield found
