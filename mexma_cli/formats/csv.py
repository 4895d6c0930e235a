"""Comma-separated values with a header line (RFC 4180), which `formats.tsv` reads."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from mexma_cli.formats.bitext import Pair, PlainPair, as_first, bitext_format
from mexma_cli.formats.jsonl import object_lines
from mexma_cli.formats.tsv import CSV, Tsv, field_text, tsv_lines

if TYPE_CHECKING:
    from mexma_cli.text.writing import Chunk


@bitext_format
class Csv(Tsv):
    """A line a pair, fields in quotes where they need them; sentences stay as they are."""

    name = CSV
    endings = (".csv",)
    ids = "wanted"
    about = "score,source,target under a header line, for spreadsheets"

    def write(
        self, pairs: Iterable[Pair], languages: tuple[str, str], with_ids: bool = False
    ) -> Iterator[Chunk]:
        pairs = as_first(pairs)
        first = next(pairs, None)
        plain = isinstance(first, PlainPair)
        names = first._fields if first and (with_ids or plain) else ("score", "source", "target")
        yield (_line(names),), 0
        for pair in chain([first] if first else [], pairs):
            yield (_line(pair[: len(names)]),), 0


ROWS = ("tsv", "csv", "jsonl")
"""The formats of `row_lines`."""


def row_lines(rows: Iterable[Sequence[Any]], names: Sequence[str], format: str) -> Iterator[Chunk]:
    """For `text.writing.write_chunks`: rows that begin with a score and two sentences, as one of `ROWS`."""
    if format == "tsv":
        yield from tsv_lines(rows)
    elif format == "jsonl":
        yield from object_lines(dict(zip(names, row, strict=True)) for row in rows)
    else:
        yield from (((_line(row),), 0) for row in chain([names], rows))


def fields_line(fields: Sequence[str], format: str) -> str:
    """A line of fields without tabs and line ends, in CSV or else in TSV."""
    return _line(fields) if format == Csv.name else "\t".join(fields) + "\n"


def _line(fields: Iterable[Any]) -> str:
    line = io.StringIO()
    csv.writer(line).writerow(
        [field_text(value) if isinstance(value, tuple) else value for value in fields]
    )  # it quotes the characters of its own line end, \r and \n
    return line.getvalue().removesuffix("\r\n") + "\n"
