"""Tab-separated text: pairs as `score TAB source TAB target`, without quoting, and CSV; with the header lines
of OPUS, OpusCleaner, Bitextor, data frames and spreadsheets."""

from __future__ import annotations

import csv
import logging
import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice, pairwise, repeat, zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple

from mexma_cli.errors import MexmaError
from mexma_cli.formats.bitext import (
    BLANK,
    FIELDS,
    AlignedPair,
    BitextFormat,
    ExplainedPair,
    FoundPair,
    MinedPair,
    OpenedPairs,
    Pair,
    PairOfColumns,
    PlainPair,
    RawText,
    Record,
    ScoredPair,
    as_first,
    bitext_format,
    one_field,
    pair_of,
    whole_number,
)
from mexma_cli.formats.labels import LABELS_READ_BY, begin_labels
from mexma_cli.formats.sides import Columns, columns_of, is_language
from mexma_cli.text.amounts import counted
from mexma_cli.text.compression import plain_name
from mexma_cli.text.lines import LINE_LIMIT, is_blank

if TYPE_CHECKING:
    from mexma_cli.text.writing import Chunk

log = logging.getLogger(__name__)
csv.field_size_limit(max(csv.field_size_limit(), LINE_LIMIT))
_Row = list[str] | csv.Error
"""A row of CSV, or why it is none."""

_QUOTED = re.compile(r'"([^"]*+(?:""[^"]*+)*)"(?!")')
_CSV_FIELD = re.compile(rf'(?:{_QUOTED.pattern}|([^"\t]*+))(?:\t|$)')
_DELIMITER = re.compile(r'"?sep=([,;|\t])"?')
"""The line with which Excel says how the fields of CSV are delimited."""
_ALL_QUOTED = re.compile(r'(?:"(?:[^"]|"")*"[,;])+"(?:[^"]|"")*"\s*\Z')
_COMMA = re.compile(r"(-?\d+),(\d+)")
"""A number as spreadsheets of many countries write it."""
CSV = "csv"
"""The format's name."""
HEADER = "header line"
"""Why a line is no pair."""
_SEEN = 10
"""Lines that tell scores from sentences that are numbers."""
_WITH_IDS = {
    len(pair._fields): pair for pair in (MinedPair, AlignedPair, ScoredPair, ExplainedPair, FoundPair)
}
"""By the number of columns: the pairs of which all is written that is known."""
_TYPES = FIELDS | {"rank": int, "line": int, "document": str}
"""Of their columns. Those of `FoundPair` are no `FIELDS`: other files have columns of these names."""
ONE_SIDE = (
    "is it one side of a bitext in two files? Name the other one too; or remove a title above the names of "
    "columns"
)
"""The hint about a line of one field where pairs should be."""
_ABOVE = "remove the lines above these names of columns"
_NO_SENTENCE = re.compile(r"\s*(?:\w+://\S*|www\.\S*|[\W\d_]*)\s*")
"""An address, a number or nothing."""
_OTHERS = {
    begun: f"it looks like {name}; TSV is read, as `mexma mine --format tsv` (the default) writes it"
    for begun, name in (("{", "JSONL"), ("<", "XML"))
}
"""Hints for a line that begins with one of these and is no TSV."""


@bitext_format
class Tsv(BitextFormat):
    """A line a pair. Read are our files, with or without ids, LASER's, stopes' (which quotes some), and
    others with a header line, and CSV."""

    name = "tsv"
    endings = (".tsv",)
    ids = "wanted"
    about = "score TAB source TAB target, as LASER writes it"

    def write(
        self, pairs: Iterable[Pair], languages: tuple[str, str], with_ids: bool = False
    ) -> Iterator[Chunk]:
        for pair in as_first(pairs):
            if isinstance(pair, PlainPair):
                left, right = map(one_field, pair)
                yield (f"{left}\t{right}\n",), (left != pair.source) + (right != pair.target)
            else:
                yield from tsv_lines([pair if with_ids else pair[:3]])

    def lines(self, text: RawText, languages: tuple[str, str]) -> Iterator[str]:
        """Of TSV and of other text the lines as they are."""
        delimiter, numbered = _begun(text)
        if not delimiter:
            return (line for _, line in numbered)
        rows = _csv_rows(numbered, delimiter)
        return ("\t".join(map(one_field, _fields(row, f"{text.where}, line {at}"))) for at, row in rows)

    def read(self, *texts: RawText, languages: tuple[str, str]) -> OpenedPairs:
        """Refused: a line that has fewer or more fields than the first one, or has not what they are, a
        quotation mark in CSV that is not closed, and columns of languages that are not the stated ones."""
        (text,) = texts
        delimiter, numbered = _begun(text)
        if delimiter:
            records = _from_csv(_csv_rows(numbered, delimiter), delimiter, text, languages)
            return OpenedPairs(CSV, languages, records)
        return OpenedPairs(self.name, languages, _records(numbered, text, languages), text.header)


def fields_of(columns: int) -> tuple[str, ...]:
    """The names of so many columns of a file without a header."""
    return _WITH_IDS.get(columns, PlainPair if columns == 2 else MinedPair)._fields[:columns]


def tsv_lines(rows: Iterable[Sequence[Any]]) -> Iterator[Chunk]:
    """A line for each (score, source, target, more ...), with the sentences as by `one_field`.

    A score is printed with all its digits, so that reading it back gives the number that was compared with
    the threshold.
    """
    for score, source, target, *more in rows:
        left, right = one_field(source), one_field(target)
        line = f"{float(score)}\t{left}\t{right}" + "".join(f"\t{field_text(value)}" for value in more) + "\n"
        yield (line,), (left != source) + (right != target)


def field_text(value: Any) -> str:
    """A value of a pair as a field: several lines as ``3,4``, and nothing for what is not known."""
    if value is None:
        return ""
    return ",".join(map(str, value)) if isinstance(value, tuple) else one_field(str(value))


def shortened(text: str) -> str:
    """A text as a message quotes it."""
    return repr(text if len(text) <= 60 else text[:57] + "...")


class _Layout(NamedTuple):
    """The layout of a file, by its first line.

    Attributes:
        columns: Their number.
        scored: Whether the first one is a score, in a file without a header.
        ids: Whether it is an id.
        header: What the names in it say.
        text: The file; with `each_line` there may be columns behind the pair.
    """

    columns: int
    scored: bool
    ids: bool
    header: Columns | None
    text: RawText

    def pair(self, line: str, where: str) -> Pair | str:
        """The pair in a line, for `RawText.records`."""
        if _is_empty(line):
            return BLANK
        if self.header:
            fields = line.split("\t")
            if '"' in line:
                fields = _unquoted(fields, line, fits=len(fields) == self.columns)
            return _of_columns(fields, self.header, where, self.text)
        if self.scored and not self.ids:
            return _scored(line, self.columns, where)
        if self.text.each_line and line.count("\t") > 1 + self.ids:
            fields = line.split("\t")
            fields = _unquoted(fields, line, fits=True) if '"' in line else fields
            source, target, *more = fields[self.ids :]
            return PairOfColumns(source, target, "\t".join(more))
        return PlainPair(*_sides(line, where, "id" if self.ids else ""))


def _begun(text: RawText) -> tuple[str | None, Iterator[tuple[int, str]]]:
    """The delimiter of CSV, by the first line that is not empty, or None; and all lines, numbered from 1."""
    number, line, numbered = 0, "", enumerate(text.lines(), 1)
    while _is_empty(line) and (one := next(numbered, None)):
        number, line = one
    start = zip(range(1, number + 1), chain(repeat("", number - 1), [line]), strict=False)
    return _delimiter(line, text.where), chain(start, numbered)


def _records(numbered: Iterator[tuple[int, str]], text: RawText, stated: tuple[str, str]) -> Iterator[Record]:
    for number, line in numbered:
        if not _is_empty(line):
            start = [(number, line)]
            break
        yield from text.no_pair(BLANK)
    else:
        return
    fields = line.split("\t")
    if _depends(fields):
        start += islice(numbered, _SEEN)
    rows = [line.split("\t") for _, line in start]
    scored, ids = _first_column(rows, text)
    header = columns_of(fields, _of_no_texts(rows[1:]), stated, len(fields) > 2 and not scored, text.where)
    layout = _Layout(len(fields), scored, ids, header, text)
    if header:
        text.header.append(line)
        yield from text.no_pair(HEADER)
        del start[0]
    yield from text.records(chain(start, numbered), layout.pair)


def _depends(fields: Sequence[str]) -> bool:
    """Whether the columns of a first line depend on the lines below it: a number may be an id, and the name
    of a language that of another column. Else none is read: a program may wait for its first answer."""
    return len(fields) >= 3 and (_number(fields[0]) is not None or any(map(is_language, fields)))


def _first_column(rows: Sequence[Sequence[str]], text: RawText) -> tuple[bool, bool]:
    """Whether the first column of the first rows is of numbers, and whether these are ids. With `each_line`
    all are looked at: a sentence may be a number, and have columns behind its pair."""
    firsts = [row[0] for row in rows if len(row) > 1]
    looked_at = firsts if text.each_line else firsts[:1]
    scored = len(rows[0]) > 2 and all(_number(field) is not None for field in looked_at)
    return scored, scored and _are_ids(firsts, text.where)


def _are_ids(fields: Sequence[str], where: str) -> bool:
    """Whether what lines begin with looks like ids, which is said: whole numbers that are all different, and
    rise or are too large for scores."""
    numbers = [int(field) if field.isdecimal() and len(field) < 20 else -1 for field in fields if field]
    rise = all(one < other for one, other in pairwise(numbers))
    found = len(set(numbers)) == len(numbers) > 1 and min(numbers) >= 0 and (rise or max(numbers) > 100)
    if found:
        log.warning("%s: the first column is taken for ids; a header line can name it `score`", where)
    return found


def _is_empty(line: str) -> bool:
    """Whether there is neither a field nor anything else in a line."""
    return "\t" not in line and is_blank(line)


def _delimiter(line: str, name: str) -> str | None:
    """The delimiter of CSV, by its first line; None if it is TSV, or empty."""
    if delimits := _DELIMITER.fullmatch(line):
        return delimits[1]
    named = plain_name(name).lower().endswith(".csv")
    if "\t" in line or is_blank(line):
        return "\t" if named and "\t" in line else None
    found: dict[tuple[bool, bool, bool], str] = {}
    for delimiter in (";", ","):
        try:
            fields = next(csv.reader([line], delimiter=delimiter), [])
        except csv.Error:  # line ends of two kinds
            continue
        header = columns_of(fields) is not None
        if len(fields) > 1 and (named or header or _ALL_QUOTED.match(line)):
            spaced = any(field[:1] == " " for field in fields[1:])  # a comma in a sentence
            found[header, not spaced, _COMMA.fullmatch(fields[0]) is not None] = delimiter
    return found[max(found)] if found else "," if named else None


def _csv_rows(numbered: Iterator[tuple[int, str]], delimiter: str) -> Iterator[tuple[int, _Row]]:
    """Rows of fields that may be quoted, and may have the delimiter and line ends in quotes (RFC 4180), each
    behind the number of its first line.

    An error comes in place of a row that is not CSV, and the line below its first one begins the next row: a
    quotation mark that is not closed spoils no other row.
    """
    again, taken = deque[tuple[int, str]](), list[tuple[int, str]]()

    def lines() -> Iterator[str]:
        size = 0
        while one := again.popleft() if again else next(numbered, None):
            taken.append(one)
            size = len(one[1]) + (size if len(taken) > 1 else 0)
            if size > LINE_LIMIT:
                raise csv.Error(f"a row of more than {LINE_LIMIT:,} characters")
            yield f"{one[1]}\n"

    ended = False
    while not ended:
        try:
            for row in csv.reader(lines(), delimiter=delimiter, strict=True):
                yield taken[0][0], row
                taken.clear()
            ended = True
        except csv.Error as error:
            yield taken[0][0], error
            again.extendleft(reversed(taken[1:]))
            taken.clear()


def _fields(row: _Row, where: str) -> list[str]:
    if isinstance(row, csv.Error):
        raise MexmaError(f"{where}: not CSV: {row}", "is a quotation mark not closed, or not doubled?")
    return row


def _from_csv(
    rows: Iterator[tuple[int, _Row]], delimiter: str, text: RawText, stated: tuple[str, str]
) -> Iterator[Record]:
    for number, found in rows:
        row = _fields(found, where := f"{text.where}, line {number}")
        if _DELIMITER.fullmatch(delimiter.join(row)):
            yield from text.no_pair(HEADER)
        elif any(map(str.strip, row)):
            break
        else:
            yield from text.no_pair(BLANK)
    else:
        return
    below = list(islice(rows, _SEEN)) if _depends(row) else []
    seen = [other for _, other in below if isinstance(other, list)]
    scored, ids = _first_column([row, *seen], text)
    columns = columns_of(row, _of_no_texts(seen), stated, len(row) > 2 and not scored, where)
    if columns:
        yield from text.no_pair(HEADER)
    else:
        if len(row) < 2:
            raise MexmaError(f"{where}: one field, and a pair has two", ONE_SIDE)
        if len(row) > 2 + scored and not text.each_line:
            raise MexmaError(
                f"{where}: {len(row)} fields, and none of them is named source or target",
                "remove a title above the names of columns, and rename those of the sentences source and "
                "target; or put names above the first pair, such as "
                f"{_names(len(row), scored, ids, delimiter)}",
            )
        names = [str(number) for number in range(1, len(row) + 1)]
        columns = Columns.at(1, 2, None if ids else 0, names) if scored else Columns.at(0, 1, None, names)
        below.insert(0, (number, row))

    def pair(row: _Row, where: str) -> Pair | str:
        fields = _fields(row, where)
        return _of_columns(fields, columns, where, text) if any(map(str.strip, fields)) else BLANK

    yield from text.records(chain(below, rows), pair)


def _names(columns: int, scored: bool, ids: bool, delimiter: str) -> str:
    """An example of a header for so many columns."""
    known = [*(["id" if ids else "score"] * scored), "source", "target"]
    return delimiter.join([*known, *(f"other{number}" for number in range(1, columns - len(known) + 1))])


def _of_columns(fields: Sequence[str], columns: Columns, where: str, text: RawText) -> Pair:
    """A pair of a file whose columns are known, with those behind it where they are wanted."""
    if len(fields) != columns.width:
        raise MexmaError(
            f"{where}: {counted(len(fields), 'field')}, expected {columns.width} as in line 1",
            _ABOVE if columns_of(fields, others=True) else None,
        )
    source, target = fields[columns.source], fields[columns.target]
    if text.each_line:
        behind = max(columns.source, columns.target, columns.known.get("score", 0)) + 1
        return PairOfColumns(source, target, "\t".join(map(one_field, fields[behind:])))
    known = {name: parsed_field(name, fields[place]) for name, place in columns.known.items()}
    pair = pair_of(known, source, target)
    text.count_others((name, fields[place]) for place, name in columns.others)
    text.count_others(
        (name if value is not None else f"{name} (no number)", fields[columns.known[name]])
        for name, value in known.items()
        if value is None or name not in pair._fields
    )
    return pair


def _scored(line: str, columns: int, where: str) -> Pair:
    """A pair with its score, and with the ids that the line has."""
    fields = line.split("\t")
    score = _number(fields[0])
    if len(fields) < 3 or score is None:
        found = counted(len(fields), "tab-separated field") if len(fields) < 3 else "no score"
        raise MexmaError(f"{where}: {found}, expected 3 (score, source, target) as in line 1")
    kind = _WITH_IDS.get(len(fields))
    if kind is not None:
        names = kind._fields[3:]
        known = {name: parsed_field(name, text) for name, text in zip(names, fields[3:], strict=True)}
        # A fourth field that is no number is a tab in quotes.
        certain = len(fields) == columns and kind in (MinedPair, AlignedPair)
        if certain or None not in known.values():
            return pair_of(known | {"score": score}, *_unquoted(fields[1:3], line, fits=True))
    # A tab more than in the first line may be in quotes.
    source, target = _sides(line, where, "score")
    return MinedPair(score, source, target)


def parsed_field(name: str, text: str) -> Any:
    """The value of one of `_TYPES` that `field_text` wrote; None if it cannot be one."""
    kind = _TYPES[name]
    if kind is str:
        return text
    try:
        if kind is tuple:
            return tuple(map(whole_number, text.split(","))) if text else ()
        if kind is int:
            return whole_number(text)
        return kind(_COMMA.sub(r"\1.\2", text) if kind is float else text)
    except ValueError:
        return None


def _of_no_texts(rows: Sequence[Sequence[str]]) -> set[int]:
    """The places of columns that have numbers, or languages of sentences beside them, and nothing else."""
    columns = enumerate(zip_longest(*rows, fillvalue=""))
    values = {place: [field for field in column if field.strip()] for place, column in columns}
    return {
        place
        for place, some in values.items()
        if some and (None not in map(_number, some) or all(map(is_language, some)))
    }


def _number(field: str) -> float | None:
    return parsed_field("score", field)


def _sides(line: str, where: str, first: str = "") -> list[str]:
    """The two sentences of a line, behind a field of this name if there is one."""
    before = bool(first)
    fields = line.split("\t")[before:]
    if '"' in line:
        fields = _unquoted(fields, "\t".join(fields), fits=len(fields) == 2)
    if len(fields) != 2:
        row = line.split("\t")
        if len(row) == 1:
            hint = _OTHERS.get(line[:1]) or ONE_SIDE
        elif begin_labels([line]):
            hint = LABELS_READ_BY
        elif columns_of(row):
            hint = _ABOVE
        else:
            hint = f"cut out the columns of the two sentences, such as `cut -f {_like_texts(row, before)}`"
        expected = f"{before + 2} ({first}{', ' * before}source, target)"
        raise MexmaError(
            f"{where}: {counted(before + len(fields), 'tab-separated field')}, expected {expected}: "
            f"{shortened(line)}",
            hint,
        )
    return fields


def _like_texts(row: Sequence[str], before: int) -> str:
    """The numbers of the two fields that look most like sentences, as `cut` takes them, of those behind the
    first ones: those of several words, and no addresses and numbers."""
    texts = [place for place in range(before, len(row)) if not _NO_SENTENCE.fullmatch(row[place])]
    spaced = [place for place in texts if " " in row[place].strip()]
    found = next((some for some in (spaced, texts) if len(some) > 1), range(before, len(row)))
    return ",".join(str(place + 1) for place in found[:2])


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
