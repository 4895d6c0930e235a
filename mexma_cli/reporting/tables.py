"""Tables as lines of text: those of results, with the published numbers beside them, and any others."""

from __future__ import annotations

import csv
import io
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from mexma_cli.errors import in_a_line
from mexma_cli.reporting.result import Result

log = logging.getLogger(__name__)

_TABLE = Path(__file__).with_name("published.tsv")
_FEW = 500
"""Translations from which an error of 5 % is known to 2 points."""


@dataclass(frozen=True)
class PublishedRow:
    """The numbers of one system on a benchmark, from one table of one paper."""

    encoder: str
    scores: dict[str, float]
    """Published numbers by the names of `Result.scores`, in its units."""
    source: str
    """Paper and table."""


@lru_cache(maxsize=1)
def _published() -> dict[str, list[PublishedRow]]:
    """Published numbers by benchmark, from lines of benchmark, encoder, score, value and source."""
    found: dict[str, dict[tuple[str, str], PublishedRow]] = {}
    lines = _TABLE.read_text(encoding="utf-8").splitlines()[1:]
    for line in filter(None, lines):
        benchmark, encoder, score, value, source = line.split("\t")
        rows = found.setdefault(benchmark, {})
        row = rows.setdefault((encoder, source), PublishedRow(encoder, {}, source))
        row.scores[score] = float(value)
    return {benchmark: list(rows.values()) for benchmark, rows in found.items()}


def published_rows(task: str) -> list[PublishedRow]:
    """Published numbers for a benchmark of published.tsv, in the file's order; nothing for an unknown one."""
    return _published().get(task, [])


def published_scores(result: Result) -> list[PublishedRow]:
    """Published numbers for a result's scores. A score that is a mean of published rows (`cosine f1` of
    `cosine f1 fra-eng` and others) counts only if all these rows have been measured here too."""
    here = {str(next(iter(row.values()))) for row in result.rows}
    found = []
    for row in published_rows(result.benchmark) if result.benchmark else []:
        parts = {name: {key for key in row.scores if key.startswith(f"{name} ")} for name in result.scores}
        scores = {
            name: row.scores[name]
            for name, keys in parts.items()
            if name in row.scores and here >= {key.removeprefix(f"{name} ") for key in keys}
        }
        if scores:
            found.append(replace(row, scores=scores))
    return found


_LATEX = str.maketrans(
    {mark: f"\\{mark}" for mark in "&%$#_{}"}
    | {"<": r"\textless{}", ">": r"\textgreater{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
)
"""How LaTeX writes characters that mean something to it."""
DIGITS = {"threshold": 4}
"""Decimals of a column of numbers where they are not 2."""


def aligned_columns(rows: Sequence[Sequence[str]], names: int) -> list[str]:
    """Columns under their headers, the first `names` to the left, numbers to the right."""
    rows = [list(map(in_a_line, row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [
            cell.ljust(width) if place < names else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return lines


def aligned_with_notes(rows: Sequence[Sequence[str]], names: int) -> list[str]:
    """A table of `aligned_columns`, and behind them the last cell of each row as it is."""
    lines = aligned_columns([row[:-1] for row in rows], names) if rows else []
    return [f"{line}  {row[-1]}".rstrip() for line, row in zip(lines, rows, strict=True)]


def text_lines(result: Result) -> list[str]:
    """The tables of a result: its rows, its scores, and the published ones beside these."""
    tables = [("", row_table(result.rows)), *published_by_row(result), ("", score_table([result]))]
    lines: list[str] = []
    for title, table in tables:
        if len(table) > 1:
            lines += ["", *filter(None, [title]), *aligned_columns(table, names_in(table))]
    return lines[1:]


def row_table(rows: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Header and rows, as text."""
    if not rows:
        return []
    keys = list(rows[0])
    return [keys, *([shown_cell(row.get(key), key) for key in keys] for row in rows)]


def score_table(group: Sequence[Result]) -> list[list[str]]:
    """Header, the scores of encoders on the same data, and those of the benchmark's published rows with their
    sources. One encoder may lack a score that another one has."""
    keys = score_names(group)
    ours = [
        [f"{one.encoder['name']} (here)", *(shown_cell(one.scores.get(key), key) for key in keys)]
        for one in group
    ]
    known: dict[tuple[str, str], dict[str, float]] = {}
    for row in (row for result in group for row in published_scores(result)):
        known.setdefault((row.encoder, row.source), {}).update(row.scores)
    if not known:
        return [["encoder", *keys], *ours]
    theirs = [
        [encoder, *(shown_cell(scores.get(key), key) for key in keys), f"  {source}"]
        for (encoder, source), scores in known.items()
    ]
    return [["encoder", *keys, "  source"], *([*row, "  measured here"] for row in ours), *theirs]


def score_names(group: Sequence[Result]) -> list[str]:
    """All scores of encoders on the same data, in the order of the one that has most."""
    complete_first = sorted(group, key=lambda result: -len(result.scores))
    return list(dict.fromkeys(name for result in complete_first for name in result.scores))


def published_by_row(result: Result) -> list[tuple[str, list[list[str]]]]:
    """For every score that is published by row (`cosine f1 fra-eng`): a title with the sources, and a table
    of this encoder's rows beside those of the others. Of rows of one name (splits of BUCC) the last one that
    has the score counts."""
    known = published_rows(result.benchmark) if result.benchmark else []
    if not result.rows:
        return []
    tables, first = [], next(iter(result.rows[0]))
    for score in result.scores:
        names = {f"{score} {row[first]}": row for row in result.rows if row.get(score) is not None}
        columns = [row for row in known if row.scores.keys() & names.keys()]
        body = [
            [
                row[first],
                shown_cell(row[score], score),
                *(shown_cell(one.scores.get(key), score) for one in columns),
            ]
            for key, row in names.items()
            if any(key in one.scores for one in columns)
        ]
        sources = ", ".join(dict.fromkeys(one.source for one in columns))
        header = [first, f"{result.encoder['name']} (here)", *(one.encoder for one in columns)]
        if body:
            tables.append((f"{score}, beside: {sources}", [header, *body]))
    return tables


def as_csv(table: Sequence[Sequence[str]]) -> str:
    """A table as CSV; what there is not is empty, so that programs read numbers."""
    lines = io.StringIO()
    rows = [["" if cell == "-" else cell for cell in row] for row in table]
    csv.writer(lines, lineterminator="\n").writerows(rows)
    return lines.getvalue()


def as_latex(table: Sequence[Sequence[str]]) -> str:
    """A table as an environment `tabular`, whose first line is the header."""
    names = names_in(table)
    header, *lines = [" & ".join(cell.translate(_LATEX) for cell in row) + r" \\" for row in table]
    columns = "l" * names + "r" * (len(table[0]) - names)
    parts = (rf"\begin{{tabular}}{{{columns}}}", r"\hline", header, r"\hline", *lines, r"\hline")
    return "\n".join([*parts, r"\end{tabular}", ""])


def names_in(table: Sequence[Sequence[str]]) -> int:
    """Columns at the left that hold no numbers."""
    body = table[1:]
    for place in range(len(table[0])):
        if any(_is_number(row[place]) for row in body):
            return place
    return len(table[0])


def shown_cell(value: object, key: str) -> str:
    """A cell: two decimals for numbers that are no counts, or as `DIGITS` says; - for nothing."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.{DIGITS.get(key, 2)}f}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _is_number(cell: str) -> bool:
    return cell == "-" or cell.replace(",", "").replace(".", "", 1).removeprefix("-").isdigit()


def warn_of_few(count: int, why: str) -> None:
    """Warn where an encoder's or a classifier's figures stand on few held-out translations."""
    if count < _FEW:
        log.warning("these figures are rough: %s", why)
