"""Results on one web page: everything in the file, tables and pictures, to be opened anywhere.

The template is results.html; here is what it shows.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any

from mexma_cli.reporting import templates
from mexma_cli.reporting.result import Heading, Result
from mexma_cli.reporting.tables import (
    published_by_row,
    published_scores,
    row_table,
    score_names,
    score_table,
    shown_cell,
)
from mexma_cli.text.amounts import counted

NO_MORE = 1e-6
"""Values that differ by less are equal: means of the same numbers in another order."""


@dataclass(frozen=True)
class Series:
    """Values of a name, one for each line of a chart; None: there is none."""

    name: str
    values: Sequence[float | None]


@dataclass(frozen=True)
class Chart:
    """The content of a chart: a dot for every value. Lines with one value have it written at their end."""

    title: str
    lines: Sequence[str]
    series: Sequence[Series]

    @cached_property
    def ticks(self) -> list[float]:
        """Round numbers on the scale, from its left end to its right one."""
        values = [value for one in self.series for value in one.values if value is not None]
        return ticks_of(min(values), max(values))

    def place(self, value: float) -> str:
        """Where a value is, in percent of the scale."""
        low, high = self.ticks[0], self.ticks[-1]
        return f"{100 * (value - low) / (high - low):.2f}"


def ticks_of(low: float, high: float) -> list[float]:
    """Round numbers from at most `low` to at least `high`, from 0 where `low` is not far from it."""
    if 0 <= low < 0.6 * high:
        low = 0.0
    if high - low < NO_MORE:
        low, high = low - 1, low + 1
    rough = (high - low) / 5
    step = 10.0 ** math.floor(math.log10(rough))
    step *= next(factor for factor in (1, 2, 5, 10) if step * factor >= rough)
    first, last = math.floor(low / step), math.ceil(high / step)
    return [round(step * number, 10) for number in range(first, last + 1)]


Headings = Mapping[str, Heading]
"""Headings by the names of evaluations; an evaluation that is not here goes by its name."""

TEMPLATE = "reporting/results.html"


def write_results_page(path: Path, results: Sequence[Result], headings: Headings) -> None:
    """Write the page, whole. Results of one task on the same data are compared."""
    templates.write_page(path, TEMPLATE, **content(_seen_from(path, results), headings))


def _seen_from(page: Path, results: Sequence[Result]) -> list[Result]:
    """The results, with paths as they are from the page: one that is passed on tells nobody's folders."""

    def seen(value: Any) -> Any:
        if isinstance(value, list):
            return [seen(one) for one in value]
        if isinstance(value, str) and Path(value).is_absolute():
            return os.path.relpath(value, page.absolute().parent)
        return value

    return [
        replace(
            one,
            encoder={key: seen(value) for key, value in one.encoder.items()},
            settings={key: seen(value) for key, value in one.settings.items()},
        )
        for one in results
    ]


def content(results: Sequence[Result], headings: Headings) -> dict[str, Any]:
    """The content of the template: a section for each task on the same data."""
    results = _told_apart(results)
    by_key: dict[str, list[Result]] = {}
    for result in results:
        key = json.dumps([result.task, result.benchmark, result.settings], sort_keys=True)
        by_key.setdefault(key, []).append(result)
    names = list(dict.fromkeys(result.encoder["name"] for result in results))
    return {
        "title": f"Evaluation of {', '.join(names)}",
        "names": names,
        "encoders": _encoders(results),
        "sections": [_section(group, headings, _apart(group[0], results)) for group in by_key.values()],
    }


def compared(results: Sequence[Result]) -> list[list[str]]:
    """A header, and the scores of every result beside its task, its data and its encoder."""
    keys = score_names(results)
    rows = [
        [
            one.task,
            _data(one) + _apart(one, results) + _rows_of(one),
            one.encoder["name"],
            *(shown_cell(one.scores.get(key), key) for key in keys),
        ]
        for one in _told_apart(results)
    ]
    return [["task", "data", "encoder", *keys], *rows]


def _told_apart(results: Sequence[Result]) -> list[Result]:
    """The results. Where encoders have one name, what tells them apart is added to it: `mini, mean`."""
    names: dict[str, list[dict[str, Any]]] = {}
    for result in results:
        names.setdefault(result.encoder["name"], []).append(result.encoder)
    renamed = []
    for result in results:
        alike, own = names[result.encoder["name"]], result.encoder
        keys = [key for key in own if any(own[key] != other.get(key) for other in alike)]
        words = [key for key in keys if key != "fingerprint"]
        told = all(other == own or any(own[key] != other.get(key) for key in words) for other in alike)
        keys = words if told else keys
        label = ", ".join(str(own[key]) for key in ("name", *keys))
        renamed.append(replace(result, encoder=own | {"name": label}))
    return renamed


def _apart(result: Result, results: Sequence[Result]) -> str:
    """The settings by which a result differs from others of its task and data: `, margin absolute`."""
    alike = [one.settings for one in results if (one.task, _data(one)) == (result.task, _data(result))]
    words = ""
    for key, value in result.settings.items():
        if not isinstance(value, list) and any(one.get(key) != value for one in alike):
            words += f", {key} {value}"
    return words


def _rows_of(result: Result) -> str:
    """The row that the scores are of, or how many they are means of."""
    if len(result.rows) == 1:
        return f", {next(iter(result.rows[0].values()))}"
    return next((_mean_of(result, score) for score in result.scores), "")


def _mean_of(result: Result, score: str) -> str:
    """How many of its rows a score is the mean of, where it is one: `, mean of 32 languages`."""
    column = score.partition(", known ")[0]
    rows = [row for row in result.rows if isinstance(row.get(column), float)]
    if len(rows) < 2 or score not in result.scores:
        return ""
    if score != column:
        rows = [row for row in rows if row.get("known") == "yes"]
    if not math.isclose(fmean(row[column] for row in rows), result.scores[score], abs_tol=1e-6):
        return ""
    return f", mean of {counted(len(rows), next(iter(rows[0])))}"


def _data(result: Result) -> str:
    """Names of files and folders, or of tasks, in short: the first of the settings."""
    value = next((value for _, value in _said(result)), "")
    names = [Path(str(one)).name for one in (value if isinstance(value, list) else [value])]
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


def _encoders(results: Sequence[Result]) -> list[list[str]]:
    """A table of what was measured: each encoder once, with how it embedded."""
    seen = {json.dumps(result.encoder, sort_keys=True): result.encoder for result in results}
    keys = list(dict.fromkeys(key for encoder in seen.values() for key in encoder))
    rows = [[str(encoder.get(key, "")) or "-" for key in keys] for encoder in seen.values()]
    return [["encoder", *(key.replace("_", " ") for key in keys[1:])], *rows]


def _section(group: Sequence[Result], headings: Headings, apart: str) -> dict[str, Any]:
    """The section for the results of one task on the same data; `apart` tells it from others of these."""
    first = group[0]
    heading = headings.get(first.task, Heading(first.task, "", ""))
    better = f"{'lower' if heading.lower_is_better else 'higher'} is better"
    numbers = heading.numbers if better in heading.numbers else f"{heading.numbers}; {better}"
    score = next(iter(score_names(group)), "")
    arrow = "↓" if heading.lower_is_better else "↑"
    means = ((score, _mean_of(first, score)) for score in first.scores)
    charts = (_score_chart(group, score) for score in score_names(group))
    return {
        "group": group,
        "heading": heading,
        "headline": (f"{score} {arrow}{_mean_of(first, score)}", _data(first) + apart),
        "first_scores": {one.encoder["name"]: shown_cell(one.scores.get(score), score) for one in group},
        "numbers": numbers,
        "measured": _measured(group),
        "settings": [(key, f" {_value(value)}") for key, value in _said(first)],
        "means": [(score, mean) for score, mean in means if mean],
        "scores": score_table(group),
        "score_charts": [chart for chart in charts if chart],
        "published": [table for result in group for table in published_by_row(result)],
        "row_charts": _row_charts(group, heading.lower_is_better),
        "tables": [(result.encoder["name"], row_table(result.rows)) for result in group if result.rows],
    }


def _measured(group: Sequence[Result]) -> list[str]:
    """When, with what and on what the results were measured, once for those that have it in common."""
    by_words: dict[str, list[str]] = {}
    for result in group:
        if made := result.made:
            words = f"{made['date']} with mexma {made['mexma']} on {made['processor']}"
            by_words.setdefault(words, []).append(result.encoder["name"])
    return [f"{', '.join(names)}: measured {words}" for words, names in by_words.items()]


def _said(result: Result) -> list[tuple[str, object]]:
    return [(key, value) for key, value in result.settings.items() if value not in ("", [], None)]


def _value(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _score_chart(group: Sequence[Result], score: str) -> Chart | None:
    """Ours and the published ones on one scale, where there are published ones."""
    every = ([row for row in published_scores(one) if score in row.scores] for one in group)
    known = next(filter(None, every), [])
    if not known:
        return None
    ours = [(f"{result.encoder['name']} (here)", result.scores.get(score)) for result in group]
    theirs = [(row.encoder, row.scores[score]) for row in known]
    lines = [name for name, _ in (*ours, *theirs)]
    here = Series("measured here", [value for _, value in ours] + [None] * len(theirs))
    there = Series("published", [None] * len(ours) + [value for _, value in theirs])
    return Chart(score, lines, [here, there])


def _row_charts(group: Sequence[Result], lower_is_better: bool) -> list[Chart]:
    """Charts of all rows, the best ones of the first encoder on top. One encoder has all its scores in one
    chart, a colour each. Several have a chart for each score, a colour for each encoder."""
    first = group[0].rows
    if len(first) < 2:
        return []
    scores = [key for key in group[0].scores if _is_drawn(first, key)]
    other = [key for key in first[0] if _is_drawn(first, key)]
    scores = scores or other[: len(other) == 1]  # SentEval's rows have their task's score as `accuracy`
    if not scores:
        return []
    key = next(iter(first[0]))
    charts = []
    for drawn in [scores] if len(group) == 1 else [[score] for score in scores]:
        order = sorted(range(len(first)), key=lambda row: first[row][drawn[0]])
        order = order if lower_is_better else order[::-1]
        lines = [_row_name(first[row]) for row in order]
        title = f"{drawn[0]} by {key}" if len(drawn) == 1 else f"by {key}"
        if len(group) == 1:
            series = [Series(score, [first[row][score] for row in order]) for score in drawn]
        else:
            series = [_of_rows(result, drawn[0], lines) for result in group]
        charts.append(Chart(title, lines, series))
    return charts


def _is_drawn(rows: Sequence[Mapping[str, Any]], key: str) -> bool:
    return all(isinstance(row.get(key), float) for row in rows)


def _of_rows(result: Result, score: str, lines: Sequence[str]) -> Series:
    """A result's values for rows by name."""
    values = {_row_name(row): row.get(score) for row in result.rows}
    return Series(result.encoder["name"], [values.get(line) for line in lines])


def _row_name(row: Mapping[str, Any]) -> str:
    """The name of a row: its first two columns, where they are words (code and name of a language)."""
    words = [value for value in list(row.values())[:2] if isinstance(value, str)]
    return " ".join(word for word in words if word != "-")
