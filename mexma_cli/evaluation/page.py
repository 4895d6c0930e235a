"""Results on one web page: everything in the file, tables and pictures, to be opened anywhere."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mexma_cli import __version__
from mexma_cli.evaluation import published
from mexma_cli.evaluation.curve_plot import COLOURS
from mexma_cli.evaluation.results import (
    Result,
    names_in,
    published_by_row,
    row_table,
    score_table,
    shown,
)
from mexma_cli.store.manifest import whole_file

WIDTH, LEFT, RIGHT, LINE = 760, 220, 30, 19
"""Of pictures, in their own units: the whole, the names, the space at the right; a row's height."""
_STYLE = """
:root { color-scheme: light dark; --ink: #1b1b1b; --soft: #666; --rule: #ddd; --paper: #fff;
  --band: #f6f6f4; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e8e8e8; --soft: #a0a0a0; --rule: #3a3a3a; --paper: #161616; --band: #202020; }
}
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 66rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.2rem; margin-top: 2.5rem; border-top: 1px solid var(--rule);
  padding-top: 1rem; } h3 { font-size: 1rem; margin: 1.5rem 0 .3rem; }
.about { color: var(--soft); margin: 0 0 1rem; overflow-wrap: anywhere; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .87rem; font-variant-numeric: tabular-nums;
  margin: .5rem 0 1rem; }
th, td { text-align: left; padding: .2rem .6rem .2rem 0; border-bottom: 1px solid var(--rule);
  white-space: nowrap; vertical-align: top; }
th { font-weight: 600; } .n { text-align: right; padding-left: .6rem; } tr.here td { font-weight: 600; }
svg { width: 100%; height: auto; display: block; margin: .5rem 0 1rem; }
svg text { font: 12px system-ui, sans-serif; fill: var(--ink); } svg .soft { fill: var(--soft); }
svg .rule { stroke: var(--rule); } svg .band { fill: var(--band); }
summary { cursor: pointer; color: var(--soft); }
"""


@dataclass(frozen=True)
class Series:
    """Values of a name, one for each line of a picture; None: there is none."""

    name: str
    values: list[float | None]


def write_page(path: Path, results: Sequence[Result]) -> None:
    """Write the page, whole. Results of one task on the same data are compared.

    Raises:
        MexmaError: The disk is full.
    """
    with whole_file(path) as file:
        file.write(page(results).encode("utf-8"))


def page(results: Sequence[Result]) -> str:
    """The page's HTML; it refers to nothing outside."""
    results = _told_apart(results)
    groups: dict[str, list[Result]] = {}
    for result in results:
        key = json.dumps([result.task, result.benchmark, result.settings], sort_keys=True)
        groups.setdefault(key, []).append(result)
    names = list(dict.fromkeys(result.encoder["name"] for result in results))
    title = f"Evaluation of {', '.join(names)}"
    body = "\n".join(_section(group) for group in groups.values())
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{html.escape(title)}</title><style>{_STYLE}</style></head><body>
<h1>{html.escape(title)}</h1>
<p class="about">Made by mexma {__version__}.</p>
{_encoders(results)}
{body}
</body></html>
"""


def _told_apart(results: Sequence[Result]) -> list[Result]:
    """The results, with what differs between encoders of one name behind it: `mini, mean`."""
    names: dict[str, list[dict[str, Any]]] = {}
    for result in results:
        names.setdefault(result.encoder["name"], []).append(result.encoder)
    renamed = []
    for result in results:
        alike, own = names[result.encoder["name"]], result.encoder
        keys = [key for key in own if any(own[key] != other.get(key) for other in alike)]
        keys = [key for key in keys if key != "fingerprint"] or keys
        label = ", ".join(str(own[key]) for key in ("name", *keys))
        renamed.append(replace(result, encoder=own | {"name": label}))
    return renamed


def _encoders(results: Sequence[Result]) -> str:
    """What was measured: each encoder once, with how it embedded."""
    seen = {json.dumps(result.encoder, sort_keys=True): result.encoder for result in results}
    keys = list(dict.fromkeys(key for encoder in seen.values() for key in encoder))
    rows = [[str(encoder.get(key, "")) or "-" for key in keys] for encoder in seen.values()]
    return _table([["encoder", *keys[1:]], *rows])


def _section(group: Sequence[Result]) -> str:
    first = group[0]
    about = "; ".join(f"{key} {_value(value)}" for key, value in first.settings.items())
    parts = [f"<h2>{html.escape(first.task)}</h2>", f'<p class="about">{html.escape(about)}</p>']
    tables = [score_table(result) for result in group]
    parts.append(_table([*tables[0][:2], *(table[1] for table in tables[1:]), *tables[0][2:]], len(group)))
    parts += [_scores_picture(group, score) for score in first.scores]
    for result in group:
        for title, table in published_by_row(result):
            if len(table) > 1:
                parts += [f"<h3>{html.escape(title)}</h3>", _table(table)]
    parts += [_rows_picture(group, score) for score in first.scores]
    for result in group:
        if result.rows:
            what = f"All numbers of {result.encoder['name']}"
            parts.append(
                f"<details><summary>{html.escape(what)}</summary>{_table(row_table(result.rows))}</details>"
            )
    return "\n".join(filter(None, parts))


def _value(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _scores_picture(group: Sequence[Result], score: str) -> str:
    """Ours and the published ones on one scale, where there are published ones."""
    benchmark = group[0].benchmark
    known = [row for row in published.rows(benchmark) if score in row.scores] if benchmark else []
    if not known:
        return ""
    ours = [(f"{result.encoder['name']} (here)", result.scores.get(score)) for result in group]
    theirs = [(row.encoder, row.scores[score]) for row in known]
    lines = [name for name, _ in (*ours, *theirs)]
    here = Series("measured here", [value for _, value in ours] + [None] * len(theirs))
    there = Series("published", [None] * len(ours) + [value for _, value in theirs])
    return picture(score, lines, [here, there])


def _rows_picture(group: Sequence[Result], score: str) -> str:
    """A score of every row, a colour for each encoder; worst at the bottom for the first encoder's."""
    first = group[0].rows
    if len(first) < 2 or not all(isinstance(row.get(score), float) for row in first):
        return ""
    key = next(iter(first[0]))
    order = sorted(first, key=lambda row: row[score])
    lines = [_row_name(row) for row in order]
    series = []
    for result in group:
        by_name = {row[key]: row.get(score) for row in result.rows}
        series.append(Series(result.encoder["name"], [by_name.get(row[key]) for row in order]))
    return picture(f"{score}, each {key}", lines, series)


def _row_name(row: Mapping[str, Any]) -> str:
    """Its first two columns, where they are words: code and name of a language."""
    words = [value for value in list(row.values())[:2] if isinstance(value, str)]
    return " ".join(word for word in words if word != "-")


def picture(title: str, lines: Sequence[str], series: Sequence[Series]) -> str:
    """A dot for every value, a line of dots for every name, as SVG; "" where there is nothing to draw."""
    values = [value for one in series for value in one.values if value is not None]
    if not values:
        return ""
    ticks = ticks_of(min(values), max(values))
    low, high = ticks[0], ticks[-1]
    top = 50 if len(series) > 1 else 30
    height = top + LINE * len(lines) + 24

    def across(value: float) -> float:
        return round(LEFT + (value - low) / (high - low) * (WIDTH - LEFT - RIGHT), 1)

    parts = [f'<text x="0" y="14" font-weight="600">{html.escape(title)}</text>']
    if len(series) > 1:
        place = 0.0
        for number, one in enumerate(series):
            parts.append(f'<circle cx="{place + 5:.0f}" cy="32" r="4.5" fill="{_colour(number)}"/>')
            parts.append(f'<text x="{place + 14:.0f}" y="36">{html.escape(one.name)}</text>')
            place += 34 + 7 * len(one.name)
    bottom = top + LINE * len(lines)
    for number in range(0, len(lines), 2):
        parts.append(f'<rect class="band" x="0" y="{top + LINE * number}" width="{WIDTH}" height="{LINE}"/>')
    for tick in ticks:
        parts.append(f'<line class="rule" x1="{across(tick)}" x2="{across(tick)}" y1="{top}" y2="{bottom}"/>')
        parts.append(
            f'<text class="soft" x="{across(tick)}" y="{bottom + 16}" text-anchor="middle">{tick:g}</text>'
        )
    for number, name in enumerate(lines):
        middle = top + LINE * number + LINE / 2
        short = name if len(name) <= 32 else name[:31] + "…"
        parts.append(f'<text x="{LEFT - 10}" y="{middle + 4}" text-anchor="end">{html.escape(short)}</text>')
        for place, one in enumerate(series):
            value = one.values[number]
            if value is not None:
                parts.append(
                    f'<circle cx="{across(value)}" cy="{middle}" r="4.5" fill="{_colour(place)}">'
                    f"<title>{html.escape(f'{name}, {one.name}: {shown(value, title)}')}</title></circle>"
                )
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img">{"".join(parts)}</svg>'


def ticks_of(low: float, high: float) -> list[float]:
    """Round numbers from at most `low` to at least `high`, from 0 where `low` is not far from it."""
    if 0 <= low < 0.6 * high:
        low = 0.0
    if high <= low:
        low, high = low - 1, high + 1
    rough = (high - low) / 5
    step = 10.0 ** math.floor(math.log10(rough))
    step *= next(factor for factor in (1, 2, 5, 10) if step * factor >= rough)
    first, last = math.floor(low / step), math.ceil(high / step)
    return [round(step * number, 10) for number in range(first, last + 1)]


def _colour(number: int) -> str:
    return COLOURS[number % len(COLOURS)]


def _table(table: Sequence[Sequence[str]], here: int = 0) -> str:
    """A table; its first `here` rows after the header are our own."""
    names = names_in(table)

    def cells(row: Sequence[str], tag: str) -> str:
        return "".join(
            f"<{tag}{' class=n' if place >= names and not _is_words(table, place) else ''}>"
            f"{html.escape(cell.strip())}</{tag}>"
            for place, cell in enumerate(row)
        )

    head, *body = table
    rows = "\n".join(
        f"<tr{' class=here' if number < here else ''}>{cells(row, 'td')}</tr>"
        for number, row in enumerate(body)
    )
    whole = f"<table><thead><tr>{cells(head, 'th')}</tr></thead><tbody>\n{rows}\n</tbody></table>"
    return f'<div class="wide">{whole}</div>'


def _is_words(table: Sequence[Sequence[str]], place: int) -> bool:
    """Whether a column after the first numbers holds words, such as sources."""
    return any(row[place].strip()[:1].isalpha() for row in table[1:])
