"""Comma-separated values with our names in the header line (RFC 4180); `formats.tsv` reads other CSV."""

from __future__ import annotations

import csv
import io
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from mexma_cli.errors import MexmaError
from mexma_cli.formats.bitext import (
    FIELDS,
    MALFORMED,
    Bitext,
    BitextFormat,
    Pair,
    PlainPair,
    RawText,
    Record,
    as_first,
    bitext_format,
    pair_of,
)
from mexma_cli.formats.jsonl import object_lines
from mexma_cli.formats.tsv import csv_rows, parsed, shown, tsv_lines
from mexma_cli.text.amounts import counted

if TYPE_CHECKING:
    from mexma_cli.text.writing import Chunk


@bitext_format
class Csv(BitextFormat):
    """A line a pair, fields in quotes where they need them; sentences stay as they are."""

    name = "csv"
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

    def recognises(self, start: bytes) -> bool:
        line = start.removeprefix(BOM_UTF8).partition(b"\n")[0].decode(errors="replace")
        names = line.rstrip("\r").split(",")
        return {"source", "target"} <= {*names} <= {*FIELDS, "source", "target"}

    def read(self, *texts: RawText, languages: tuple[str, str]) -> Bitext:
        """Refused: a line with another number of fields than the header, and a quotation mark that is not
        closed."""
        return Bitext(self.name, languages, _records(*texts))


def _records(text: RawText) -> Iterator[Record]:
    rows = csv_rows(text.lines(), ",", text.where)
    _, names = next(rows)
    for where, row in rows:
        if not row:
            continue
        if len(row) == len(names):
            known = dict(zip(names, row, strict=True))
            source, target = known.pop("source"), known.pop("target")
            values = {name: parsed(name, value) for name, value in known.items()}
            text.count_others((f"{name} (no number)", known[name]) for name in known if values[name] is None)
            yield None, pair_of(values, source, target)
        elif text.each_line:
            yield from text.no_pair(MALFORMED)
        else:
            raise MexmaError(f"{where}: {counted(len(row), 'field')}, expected {len(names)} as in line 1")


ROWS = ("tsv", "csv", "jsonl")
"""The formats of `row_lines`."""


def row_lines(rows: Iterable[Sequence[Any]], names: Sequence[str], kind: str) -> Iterator[Chunk]:
    """For `text.writing.write_chunks`: rows that begin with a score and two sentences, as one of `ROWS`."""
    if kind == "tsv":
        yield from tsv_lines(rows)
    elif kind == "jsonl":
        yield from object_lines(dict(zip(names, row, strict=True)) for row in rows)
    else:
        yield from (((_line(row),), 0) for row in chain([names], rows))


def fields_line(fields: Sequence[str], kind: str) -> str:
    """A line of fields without tabs and line ends, in CSV or else in TSV."""
    return _line(fields) if kind == Csv.name else "\t".join(fields) + "\n"


def _line(fields: Iterable[Any]) -> str:
    line = io.StringIO()
    csv.writer(line).writerow(
        [shown(value) if isinstance(value, tuple) else value for value in fields]
    )  # it quotes the characters of its own line end, \r and \n
    return line.getvalue().removesuffix("\r\n") + "\n"
