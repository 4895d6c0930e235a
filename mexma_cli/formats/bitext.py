"""Mined bitext as text: TSV (`score TAB source TAB target`, without quoting), JSONL and Moses files."""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import NamedTuple

from mexma_cli.errors import MexmaError
from mexma_cli.text.amounts import counted

_BREAKS = re.compile(r"[\t\n\r]")
_QUOTED = re.compile(r'"((?:[^"]|"")*)"')
_SURROGATES = re.compile("[\ud800-\udfff]")
_JSONL = "the first line is an object, so each must be one as `mexma mine --format jsonl` writes them"
_OTHERS = {"{": "JSONL", "<": "XML"}
"""What a line is that begins so, where it is no TSV."""


class ScoredPair(NamedTuple):
    """A line of mined bitext. `line` counts from 1; 0 where it comes from no file."""

    score: float
    source: str
    target: str
    line: int = 0


class MinedPair(NamedTuple):
    """A pair and all that is known of it.

    Lines are counted from 1 and so are ranks: `source_rank` is the target's place among the neighbours of the
    source, 0 where it is not among them. The means are those of both neighbourhoods' cosines.
    """

    score: float
    source: str
    target: str
    source_line: int = 0
    target_line: int = 0
    source_rank: int = 0
    target_rank: int = 0
    cosine: float = 0.0
    source_mean: float = 0.0
    target_mean: float = 0.0


Chunk = tuple[tuple[str, ...], int]
"""What a formatter gives: text for each of the format's files, and how many sentences had to be changed."""


def one_field(sentence: str) -> str:
    """The sentence as it stands in a TSV field: tabs and line breaks are spaces."""
    return _BREAKS.sub(" ", sentence)


def format_pairs(pairs: Iterable[tuple[float, str, str]]) -> Iterator[tuple[str, int]]:
    """(line with its line end, sentences changed by `one_field`: 0 to 2) for each pair.

    A score is printed with all its digits, so that reading it back gives the number that was compared with
    the threshold.
    """
    for score, source, target in pairs:
        clean = one_field(source), one_field(target)
        yield f"{float(score)}\t{clean[0]}\t{clean[1]}\n", (clean[0] != source) + (clean[1] != target)


def tsv(pairs: Iterable[MinedPair], with_ids: bool = False) -> Iterator[Chunk]:
    """`format_pairs`; with ids the other seven values of a `MinedPair` follow in more columns."""
    for pair in pairs:
        ((line, changed),) = format_pairs([pair[:3]])
        if with_ids:
            line = line[:-1] + "".join(f"\t{value}" for value in pair[3:]) + "\n"
        yield (line,), changed


def jsonl(pairs: Iterable[MinedPair]) -> Iterator[Chunk]:
    """One JSON object a line, with the names of a `MinedPair`; sentences stay as they are."""
    for pair in pairs:
        yield (json.dumps(pair._asdict(), ensure_ascii=False) + "\n",), 0


def moses(pairs: Iterable[MinedPair]) -> Iterator[Chunk]:
    """Two files, the sentences of a pair in the same line of both; changed as by `one_field`."""
    for pair in pairs:
        source, target = one_field(pair.source), one_field(pair.target)
        yield (f"{source}\n", f"{target}\n"), (source != pair.source) + (target != pair.target)


def read_scored(lines: Iterable[str], where: str) -> Iterator[ScoredPair]:
    """Read mined bitext: ours, with or without ids, as TSV or JSONL, LASER's, or stopes' (which puts some
    in quotes).

    Args:
        lines: without their line ends.
        where: the file's name, for messages.

    Raises:
        MexmaError: a line without three fields, or with a score that is no finite number.
    """
    lines = iter(lines)
    first = next(lines, None)
    if first is None:
        return
    lines = chain([first], lines)
    if is_jsonl(first):
        for pair in read_jsonl(lines, where):
            if not math.isfinite(pair.score):
                raise MexmaError(f"{where}, line {pair.line}: `score` is not there, or not a number", _JSONL)
            yield pair
        return
    for number, line in enumerate(lines, 1):
        columns, with_ids = "score, source, target", len(MinedPair._fields)
        score, source, target = _fields(line, 3, where, number, columns, with_ids)[:3]
        try:
            value = float(score)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise MexmaError(
                f"{where}, line {number}: the score {_short(score)} is not a number",
                "each line must be: score TAB source TAB target",
            )
        yield ScoredPair(value, source, target, number)


def is_jsonl(line: str) -> bool:
    """Whether a first line is of JSONL: what begins so without a tab is no TSV."""
    return line.startswith("{") and "\t" not in line


def read_jsonl(lines: Iterable[str], where: str) -> Iterator[ScoredPair]:
    """Read pairs as `jsonl` writes them, or others with the texts `source` and `target`.

    Sentences come as by `one_field`, so that they are what TSV would have. A score that is not there, or is
    not a number, is nan.

    Raises:
        MexmaError: a line that is no such object.
    """
    for number, line in enumerate(lines, 1):
        try:
            found = json.loads(line, parse_int=float)  # of any length
        except ValueError:
            found = None
        sides = [found.get(side) for side in ("source", "target")] if isinstance(found, dict) else []
        texts = [text for text in sides if isinstance(text, str) and not _SURROGATES.search(text)]
        if len(texts) < 2:
            raise MexmaError(
                f"{where}, line {number}: not an object with the texts `source` and `target`: {_short(line)}",
                _JSONL,
            )
        score = found["score"] if isinstance(found.get("score"), float) else math.nan
        yield ScoredPair(score, one_field(texts[0]), one_field(texts[1]), number)


def read_pairs(
    lines: Iterable[str], where: str, columns: str = "source, target"
) -> Iterator[tuple[str, str]]:
    """Read lines of two fields.

    Args:
        columns: what the two are, for messages.

    Raises:
        MexmaError: a line without two fields.
    """
    for number, line in enumerate(lines, 1):
        first, second = _fields(line, 2, where, number, columns)
        yield first, second


def _fields(
    line: str, wanted: int, where: str, number: int, columns: str, also: int | None = None
) -> list[str]:
    fields = line.split("\t")
    if '"' in line:
        fields = _unquoted(fields, line, fits=len(fields) in (wanted, also))
    if len(fields) not in (wanted, also):
        raise MexmaError(
            f"{where}, line {number}: {counted(len(fields), 'tab-separated field')}, "
            f"expected {wanted} ({columns}): {_short(line)}",
            other_format(line),
        )
    return fields


def other_format(line: str) -> str | None:
    """A hint, where a line looks like another format."""
    other = _OTHERS.get(line[:1])
    return (
        other and f"it looks like {other}; read is TSV, as `mexma mine --format tsv` (the default) writes it"
    )


def _unquoted(fields: list[str], line: str, fits: bool) -> list[str]:
    """Undo csv quoting where it shows: csv quotes a field only if it holds a quote (doubled) or a tab.

    Args:
        fits: There are as many fields as wanted. Then no tab was in quotes: marks that open in one field and
            close in another are the sentences' own.
    """
    if not fits and any(field.startswith('"') != field.endswith('"') for field in fields[1:]):
        joined = next(csv.reader([line], delimiter="\t", strict=False))
        if len(joined) < len(fields) and line.count('"') % 2 == 0 and _is_csv(joined, line):
            return joined
    return [
        match[1].replace('""', '"') if (match := _QUOTED.fullmatch(field)) and '""' in match[1] else field
        for field in fields
    ]


def _is_csv(fields: list[str], line: str) -> bool:
    """Whether writing the fields as csv gives the line again."""
    quoted = [
        '"' + field.replace('"', '""') + '"' if re.search(r'["\t]', field) else field for field in fields
    ]
    return "\t".join(quoted) == line


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")
