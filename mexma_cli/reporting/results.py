"""What an evaluation found: as JSON, as a table with the published numbers, and as a file to report on."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mexma_cli.errors import MexmaError
from mexma_cli.files import read_json, write_json_atomic
from mexma_cli.reporting import published
from mexma_cli.reporting.tables import aligned

if TYPE_CHECKING:
    from mexma_cli.encoder.encoder import SentenceEncoder

Row = Mapping[str, Any]
Value = str | int | float | None

DIGITS = {"threshold": 4}
"""Decimals of a column of numbers where they are not 2."""


@dataclass(frozen=True)
class Result:
    """One measurement of one encoder."""

    task: str
    """The command's name: `xsim`."""
    encoder: dict[str, Any]
    """`name`, `fingerprint` and what else says how it embeds: see `describe`."""
    settings: dict[str, Any]
    """The data, and all options that change the numbers."""
    scores: dict[str, float]
    """The headline numbers, in the units of the papers' tables (percent as a rule)."""
    rows: list[dict[str, Any]]
    """What they are means of: one for each language, pair or data set, all with the same keys; the first
    keys with strings name the row. None: not measured."""
    benchmark: str | None = None
    """Under which the same task on the same data has published numbers in published.tsv."""

    def to_json(self) -> dict[str, Any]:
        """For `json.dumps`."""
        return asdict(self)

    @classmethod
    def from_json(cls, content: Any, where: str = "the result") -> Result:
        """From what `to_json` gave.

        Raises:
            MexmaError: It is no result; `where` is the file's name for the message.
        """
        kinds = {"task": str, "encoder": dict, "settings": dict, "scores": dict, "rows": list}
        if not isinstance(content, dict):
            raise MexmaError(f"{where} is no result of `mexma eval`", "-o of `mexma eval` writes them")
        for key, kind in kinds.items():
            if not isinstance(content.get(key), kind):
                raise MexmaError(
                    f"{where} is no result of `mexma eval`: `{key}` is missing or is not what it should be",
                    "-o of `mexma eval` writes them",
                )
        if not isinstance(content["encoder"].get("name"), str):
            raise MexmaError(f"{where} is no result of `mexma eval`: its `encoder` has no name")
        if not all(isinstance(row, dict) and row for row in content["rows"]):
            raise MexmaError(f"{where} is no result of `mexma eval`: one of its `rows` is none")
        known = {field.name for field in fields(cls)}
        result = cls(**{key: value for key, value in content.items() if key in known})
        # Earlier versions wrote nan where there is no number.
        rows = [{key: None if _is_nan(value) else value for key, value in row.items()} for row in result.rows]
        scores = {key: value for key, value in result.scores.items() if not _is_nan(value)}
        return replace(result, scores=scores, rows=rows)

    @classmethod
    def read(cls, path: Path) -> Result:
        """From a file that `-o` wrote.

        Raises:
            MexmaError: Missing, not JSON, or no result.
        """
        return cls.from_json(read_json(path), str(path))


def describe(encoder: SentenceEncoder) -> dict[str, Any]:
    """`Result.encoder` of an encoder."""
    return {
        "name": encoder.name,
        "fingerprint": encoder.fingerprint,
        "pooling": encoder.pooling,
        "max_tokens": encoder.max_tokens,
        "prefix": encoder.prefix,
        "precision": encoder.precision_name,
        "dim": encoder.dim,
    }


def print_result(result: Result, as_json: bool = False, output: Path | None = None) -> None:
    """Print a result on stdout, as one JSON object or as tables; and keep it in a file first.

    Raises:
        MexmaError: The file cannot be written.
    """
    if output is not None:
        write_json_atomic(output, result.to_json())
    if as_json:
        click.echo(json.dumps(result.to_json(), ensure_ascii=False))
        return
    click.echo("\n".join(text_lines(result)))


def text_lines(result: Result) -> list[str]:
    """The tables of a result: its rows, its scores, and the published ones beside these."""
    tables = [("", row_table(result.rows)), *published_by_row(result), ("", score_table([result]))]
    lines: list[str] = []
    for title, table in tables:
        if len(table) > 1:
            lines += ["", *filter(None, [title]), *aligned(table, names_in(table))]
    return lines[1:]


def row_table(rows: Sequence[Row]) -> list[list[str]]:
    """Header and rows, as text."""
    if not rows:
        return []
    keys = list(rows[0])
    return [keys, *([shown(row.get(key), key) for key in keys] for row in rows)]


def score_table(group: Sequence[Result]) -> list[list[str]]:
    """Header, the scores of encoders on the same data, and those of the benchmark's published rows with their
    sources. One encoder may lack a score that another one has."""
    keys = score_names(group)
    ours = [
        [f"{one.encoder['name']} (here)", *(shown(one.scores.get(key), key) for key in keys)] for one in group
    ]
    known: dict[tuple[str, str], dict[str, float]] = {}
    for row in (row for result in group for row in published_scores(result)):
        known.setdefault((row.encoder, row.source), {}).update(row.scores)
    if not known:
        return [["encoder", *keys], *ours]
    theirs = [
        [encoder, *(shown(scores.get(key), key) for key in keys), f"  {source}"]
        for (encoder, source), scores in known.items()
    ]
    return [["encoder", *keys, "  source"], *([*row, "  measured here"] for row in ours), *theirs]


def score_names(group: Sequence[Result]) -> list[str]:
    """All scores of encoders on the same data, in the order of the one that has most."""
    complete_first = sorted(group, key=lambda result: -len(result.scores))
    return list(dict.fromkeys(name for result in complete_first for name in result.scores))


def published_scores(result: Result) -> list[published.PublishedRow]:
    """What is published of a result's scores. A mean of rows (`cosine f1` of `cosine f1 fra-eng` and others)
    is only where all of these have been measured here, too."""
    here = {str(next(iter(row.values()))) for row in result.rows}
    found = []
    for row in published.rows(result.benchmark) if result.benchmark else []:
        parts = {name: {key for key in row.scores if key.startswith(f"{name} ")} for name in result.scores}
        scores = {
            name: row.scores[name]
            for name, keys in parts.items()
            if name in row.scores and here >= {key.removeprefix(f"{name} ") for key in keys}
        }
        if scores:
            found.append(replace(row, scores=scores))
    return found


def published_by_row(result: Result) -> list[tuple[str, list[list[str]]]]:
    """For every score that is published by row (`cosine f1 fra-eng`): a title with the sources, and a table
    of this encoder's rows beside those of the others. Of rows of one name (splits of BUCC) the last one that
    has the score counts."""
    known = published.rows(result.benchmark) if result.benchmark else []
    if not result.rows:
        return []
    tables, first = [], next(iter(result.rows[0]))
    for score in result.scores:
        names = {f"{score} {row[first]}": row for row in result.rows if row.get(score) is not None}
        columns = [row for row in known if row.scores.keys() & names.keys()]
        body = [
            [row[first], shown(row[score], score), *(shown(one.scores.get(key), score) for one in columns)]
            for key, row in names.items()
            if any(key in one.scores for one in columns)
        ]
        sources = ", ".join(dict.fromkeys(one.source for one in columns))
        header = [first, f"{result.encoder['name']} (here)", *(one.encoder for one in columns)]
        tables.append((f"{score}, beside: {sources}", [header, *body] if body else []))
    return tables


def names_in(table: Sequence[Sequence[str]]) -> int:
    """Columns at the left that hold no numbers."""
    body = table[1:]
    for place in range(len(table[0])):
        if any(_is_number(row[place]) for row in body):
            return place
    return len(table[0])


def shown(value: Value, key: str) -> str:
    """A cell: two decimals for numbers that are no counts, or as `DIGITS` says; - for nothing."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.{DIGITS.get(key, 2)}f}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _is_number(cell: str) -> bool:
    return cell == "-" or cell.replace(",", "").replace(".", "", 1).removeprefix("-").isdigit()
