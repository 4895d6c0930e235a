"""Tab-separated text: pairs as `score TAB source TAB target`, without quoting, and lists of two fields."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from mexma_cli.errors import MexmaError
from mexma_cli.formats.bitext import (
    AlignedPair,
    BitextFormat,
    MinedPair,
    Pair,
    PlainPair,
    ScoredPair,
    bitext_format,
    one_field,
    pair_of,
)
from mexma_cli.text.amounts import counted

if TYPE_CHECKING:
    from mexma_cli.text.writing import Chunk

_QUOTED = re.compile(r'"([^"]*+(?:""[^"]*+)*+)"')
_CSV_FIELD = re.compile(rf'(?:{_QUOTED.pattern}|([^"\t]*+))(?:\t|$)')
_WITH_IDS = tuple(len(pair._fields) for pair in (MinedPair, AlignedPair))
"""The numbers of columns where all is written that is known of a pair."""
_OTHERS = {"{": "JSONL", "<": "XML"}
"""The format of a line that begins with one of these and is no TSV."""


@bitext_format
class Tsv(BitextFormat):
    """A line a pair. Read are our files, with or without ids, LASER's, and stopes' (which quotes some)."""

    name = "tsv"
    endings = (".tsv",)
    ids = "wanted"
    about = "score TAB source TAB target, as LASER writes it"

    def write(
        self, pairs: Iterable[Pair], languages: tuple[str, str], with_ids: bool = False
    ) -> Iterator[Chunk]:
        for pair in pairs:
            if isinstance(pair, PlainPair):
                left, right = map(one_field, pair)
                yield (f"{left}\t{right}\n",), (left != pair.source) + (right != pair.target)
            else:
                yield from tsv_lines([pair if with_ids else pair[:3]])

    def read(self, lines: Iterator[str], where: str) -> Iterator[ScoredPair]:
        for number, line in enumerate(lines, 1):
            score, source, target = _fields(line, 3, where, number, "score, source, target", _WITH_IDS)[:3]
            value = _number(score)
            if value is None or not math.isfinite(value):
                raise MexmaError(
                    f"{where}, line {number}: the score {shortened(score)} is not a number",
                    "each line must be: score TAB source TAB target",
                )
            yield ScoredPair(value, source, target, number)

    def read_pairs(self, lines: Iterator[str], where: str) -> Iterator[Pair]:
        """Raises:
        MexmaError: A line with fewer or more fields than the first one, or without them.
        """
        first = next(lines)
        columns = first.count("\t") + 1
        if columns == 1:
            raise MexmaError(
                f"{where}, line 1: 1 tab-separated field, expected 2 (source, target)",
                _other_format(first) or "is it one side of a bitext in two files? Name the other one too",
            )
        scored = columns >= 3 and _number(first.partition("\t")[0]) is not None
        for number, line in enumerate(chain([first], lines), 1):
            if scored:
                yield _known(line, columns, where, number)
            else:
                yield PlainPair(*_fields(line, 2, where, number, "source, target"))


def tsv_lines(rows: Iterable[Sequence[Any]]) -> Iterator[Chunk]:
    """A line for each (score, source, target, more ...), with the sentences as by `one_field`.

    A score is printed with all its digits, so that reading it back gives the number that was compared with
    the threshold.
    """
    for score, source, target, *more in rows:
        left, right = one_field(source), one_field(target)
        line = f"{float(score)}\t{left}\t{right}" + "".join(f"\t{shown(value)}" for value in more) + "\n"
        yield (line,), (left != source) + (right != target)


def shown(value: Any) -> str:
    """What is known of a pair as it stands in a field: several lines as ``3,4``."""
    return ",".join(map(str, value)) if isinstance(value, tuple) else one_field(str(value))


def read_pairs(
    lines: Iterable[str], where: str, columns: str = "source, target"
) -> Iterator[tuple[str, str]]:
    """Read lines of two fields.

    Args:
        columns: The names of the two, for messages.

    Raises:
        MexmaError: A line without two fields.
    """
    for number, line in enumerate(lines, 1):
        first, second = _fields(line, 2, where, number, columns)
        yield first, second


def shortened(text: str) -> str:
    """A text as a message quotes it."""
    return repr(text if len(text) <= 60 else text[:57] + "...")


def _known(line: str, columns: int, where: str, number: int) -> Pair:
    """A pair with its score, and with what else the line has, if it has as many columns as the first one."""
    fields = line.split("\t")
    score = _number(fields[0])
    if len(fields) < 3 or score is None:
        found = counted(len(fields), "tab-separated field") if len(fields) < 3 else "no score"
        raise MexmaError(f"{where}, line {number}: {found}, expected 3 (score, source, target) as in line 1")
    if len(fields) == columns and columns in _WITH_IDS:
        return _with_ids(score, fields)
    # A tab too many in other lines may be in quotes.
    source, target = _fields("\t".join(fields[1:]), 2, where, number, "source, target")
    return MinedPair(score, source, target)


def _with_ids(score: float, fields: Sequence[str]) -> Pair:
    kind = MinedPair if len(fields) == len(MinedPair._fields) else AlignedPair
    known = {"score": score} | {
        name: value
        for name, text in zip(kind._fields[3:], fields[3:], strict=True)
        if (value := parsed(name, text)) is not None
    }
    return pair_of(known, *_unquoted(list(fields[1:3]), "\t".join(fields), fits=True))


def parsed(name: str, text: str) -> Any:
    """What `shown` wrote of a field of `MinedPair` or `AlignedPair`; None if it is nothing of the kind."""
    if name.endswith("_document"):
        return text
    try:
        if name.endswith("_lines"):
            return tuple(map(int, text.split(","))) if text else ()
        return int(text) if name.endswith(("_line", "_rank")) else float(text)
    except ValueError:
        return None


def _number(field: str) -> float | None:
    try:
        return float(field)
    except ValueError:
        return None


def _fields(
    line: str, wanted: int, where: str, number: int, columns: str, also: Sequence[int] = ()
) -> list[str]:
    fields = line.split("\t")
    if '"' in line:
        fields = _unquoted(fields, line, fits=len(fields) in (wanted, *also))
    if len(fields) not in (wanted, *also):
        raise MexmaError(
            f"{where}, line {number}: {counted(len(fields), 'tab-separated field')}, "
            f"expected {wanted} ({columns}): {shortened(line)}",
            _other_format(line),
        )
    return fields


def _other_format(line: str) -> str | None:
    """A hint, where a line looks like another format."""
    other = _OTHERS.get(line[:1])
    return (
        other and f"it looks like {other}; TSV is read, as `mexma mine --format tsv` (the default) writes it"
    )


def _unquoted(fields: list[str], line: str, fits: bool) -> list[str]:
    """Undo csv quoting where it shows: csv quotes a field only if it holds a quote (doubled) or a tab.

    Args:
        fits: There are as many fields as wanted. Then no tab was in quotes: marks that open in one field and
            close in another are the sentences' own.
    """
    if not fits and any(field.startswith('"') != field.endswith('"') for field in fields[1:]):
        joined = _csv_fields(line)
        if 0 < len(joined) < len(fields):
            return joined
    return [
        match[1].replace('""', '"') if (match := _QUOTED.fullmatch(field)) and '""' in match[1] else field
        for field in fields
    ]


def _csv_fields(line: str) -> list[str]:
    """The fields of a line in which those with a quote or a tab, and no others, are quoted; else none."""
    fields, place = [], 0
    while place <= len(line):
        found = _CSV_FIELD.match(line, place)
        if found is None or (found[1] is not None and not re.search(r'["\t]', found[1])):
            return []
        fields.append(found[2] if found[1] is None else found[1].replace('""', '"'))
        place = found.end() + (found[0][-1:] != "\t")
    return fields
