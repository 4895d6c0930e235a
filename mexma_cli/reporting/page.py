"""Results on one web page: everything in the file, tables and pictures, to be opened anywhere."""

from __future__ import annotations

import html
import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

from mexma_cli import __version__
from mexma_cli.files import whole_file
from mexma_cli.reporting.page_chart import Series, chart
from mexma_cli.reporting.published import published_scores
from mexma_cli.reporting.result import Heading, Result
from mexma_cli.reporting.tables import (
    names_in,
    published_by_row,
    row_table,
    score_names,
    score_table,
    shown,
)
from mexma_cli.text.amounts import counted

Headings = Mapping[str, Heading]
"""By the name of an evaluation; one that is not here goes by its name."""

_STYLE = Path(__file__).with_name("page.css")


def write_page(path: Path, results: Sequence[Result], headings: Headings) -> None:
    """Write the page, whole. Results of one task on the same data are compared.

    Raises:
        MexmaError: The disk is full.
    """
    with whole_file(path) as file:
        file.write(page(_seen_from(path, results), headings).encode("utf-8"))


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


def page(results: Sequence[Result], headings: Headings) -> str:
    """The page's HTML; it refers to nothing outside."""
    results = _told_apart(results)
    by_key: dict[str, list[Result]] = {}
    for result in results:
        key = json.dumps([result.task, result.benchmark, result.settings], sort_keys=True)
        by_key.setdefault(key, []).append(result)
    groups = list(by_key.values())
    names = list(dict.fromkeys(result.encoder["name"] for result in results))
    title = f"Evaluation of {', '.join(names)}"
    body = "\n".join(_section(number, group, headings) for number, group in enumerate(groups, 1))
    return document(
        title,
        f"""<h1>{html.escape(title)}</h1>
<p class="about">Made with mexma {__version__}. Below a title stands when and on what it was measured.</p>
<section class="overview"><p>Headline figures: the first score of each task. ↑ higher is better, ↓ lower is
better.</p>
{_overview(groups, names, headings)}{_encoders(results)}</section>
{body}""",
    )


def document(title: str, body: str) -> str:
    """An HTML file that needs no other, with the style of our pages."""
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{html.escape(title)}</title><style>
{_STYLE.read_text(encoding="utf-8")}</style></head><body>
{body}
</body></html>
"""


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


def _overview(groups: Sequence[Sequence[Result]], names: Sequence[str], headings: Headings) -> str:
    """The first score of every task, a column for each encoder."""
    rows = []
    for number, group in enumerate(groups, 1):
        score = next(iter(score_names(group)), "")
        found = {result.encoder["name"]: shown(result.scores.get(score), score) for result in group}
        arrow = "↓" if _heading(group[0], headings).lower_is_better else "↑"
        link = f'<a href="#r{number}">{html.escape(_heading(group[0], headings).title)}</a>'
        cells = "".join(f'<td class="n">{html.escape(found.get(name, "-"))}</td>' for name in names)
        words = "".join(
            f"<td>{html.escape(word)}</td>"
            for word in (f"{score} {arrow}" + _mean_of(group[0], score), _data(group[0]))
        )
        rows.append(f"<tr><td>{link}</td>{words}{cells}</tr>")
    head = "".join(f'<th class="n">{html.escape(name)}</th>' for name in names)
    return _scrolling(f"<tr><th>task</th><th>score</th><th>on</th>{head}</tr>", rows)


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


def _encoders(results: Sequence[Result]) -> str:
    """What was measured: each encoder once, with how it embedded."""
    seen = {json.dumps(result.encoder, sort_keys=True): result.encoder for result in results}
    keys = list(dict.fromkeys(key for encoder in seen.values() for key in encoder))
    rows = [[str(encoder.get(key, "")) or "-" for key in keys] for encoder in seen.values()]
    table = html_table([["encoder", *(key.replace("_", " ") for key in keys[1:])], *rows])
    return f"<details><summary>How the encoders embedded</summary>{table}</details>"


def _heading(result: Result, headings: Headings) -> Heading:
    return headings.get(result.task, Heading(result.task, "", ""))


def _section(number: int, group: Sequence[Result], headings: Headings) -> str:
    first = group[0]
    heading = _heading(first, headings)
    parts = [f"<h2>{html.escape(heading.title)}</h2>"]
    if heading.numbers:
        better = f"{'lower' if heading.lower_is_better else 'higher'} is better"
        numbers = heading.numbers if better in heading.numbers else f"{heading.numbers}; {better}"
        parts.append(f"<p>{html.escape(numbers)}</p>")
    parts += [f'<p class="about">{html.escape(said)}</p>' for said in _measured(group)]
    about = (f"<span><b>{html.escape(k)}</b> {html.escape(_value(v))}</span>" for k, v in _said(first))
    means = (f"<span><b>{html.escape(score)}</b>{_mean_of(first, score)}</span>" for score in first.scores)
    parts.append(f'<p class="about">{"".join(about)}</p>')
    parts.append(f'<p class="about">{"".join(mean for mean in means if "mean of" in mean)}</p>')
    parts.append(html_table(score_table(group), len(group)))
    parts += [_scores_chart(group, score) for score in score_names(group)]
    for result in group:
        for title, table in published_by_row(result):
            parts += [f"<h3>{html.escape(title)}</h3>", html_table(table)]
    parts += _rows_charts(group, heading.lower_is_better)
    for result in group:
        if result.rows:
            what = f"All numbers of {result.encoder['name']}"
            parts.append(
                f"<details><summary>{html.escape(what)}</summary>{html_table(row_table(result.rows))}</details>"
            )
    body = "\n".join(filter(None, parts))
    return f'<section id="r{number}">{body}</section>'


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


def _scores_chart(group: Sequence[Result], score: str) -> str:
    """Ours and the published ones on one scale, where there are published ones."""
    every = ([row for row in published_scores(one) if score in row.scores] for one in group)
    known = next(filter(None, every), [])
    if not known:
        return ""
    ours = [(f"{result.encoder['name']} (here)", result.scores.get(score)) for result in group]
    theirs = [(row.encoder, row.scores[score]) for row in known]
    lines = [name for name, _ in (*ours, *theirs)]
    here = Series("measured here", [value for _, value in ours] + [None] * len(theirs))
    there = Series("published", [None] * len(ours) + [value for _, value in theirs])
    return chart(score, lines, [here, there])


def _rows_charts(group: Sequence[Result], lower_is_better: bool) -> list[str]:
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
        charts.append(chart(title, lines, series))
    return charts


def _is_drawn(rows: Sequence[Mapping[str, Any]], key: str) -> bool:
    return all(isinstance(row.get(key), float) for row in rows)


def _of_rows(result: Result, score: str, lines: Sequence[str]) -> Series:
    """A result's values for rows by name."""
    values = {_row_name(row): row.get(score) for row in result.rows}
    return Series(result.encoder["name"], [values.get(line) for line in lines])


def _row_name(row: Mapping[str, Any]) -> str:
    """Its first two columns, where they are words: code and name of a language."""
    words = [value for value in list(row.values())[:2] if isinstance(value, str)]
    return " ".join(word for word in words if word != "-")


def html_table(table: Sequence[Sequence[str]], here: int = 0) -> str:
    """A table; its first `here` rows after the header are our own."""
    names = names_in(table)

    def cells(row: Sequence[str], tag: str) -> str:
        return "".join(
            f"<{tag}{' class=n' if place >= names and not _is_words(table, place) else ''}>"
            f"{html.escape(cell.strip())}</{tag}>"
            for place, cell in enumerate(row)
        )

    head, *body = table
    rows = [
        f"<tr{' class=here' if number < here else ''}>{cells(row, 'td')}</tr>"
        for number, row in enumerate(body)
    ]
    return _scrolling(f"<tr>{cells(head, 'th')}</tr>", rows)


def _scrolling(head: str, rows: Sequence[str]) -> str:
    """A table that scrolls by itself where it is wider than the page."""
    body = "\n".join(rows)
    return f'<div class="wide"><table><thead>{head}</thead><tbody>\n{body}\n</tbody></table></div>'


def _is_words(table: Sequence[Sequence[str]], place: int) -> bool:
    """Whether a column after the first numbers holds words, such as sources."""
    return any(row[place].strip()[:1].isalpha() for row in table[1:])
