"""Dots on a scale and bars, as HTML that fits any width: a line for every name, a colour for every series."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass

from mexma_cli.reporting.tables import shown

COLOURS = 7
"""Classes c0, c1, ... of page.css."""
NO_MORE = 1e-6
"""Values that differ by less are equal: means of the same numbers in another order."""


@dataclass(frozen=True)
class Series:
    """Values of a name, one for each line of a chart; None: there is none."""

    name: str
    values: Sequence[float | None]


def chart(title: str, lines: Sequence[str], series: Sequence[Series]) -> str:
    """A heading and a dot for every value; "" where there is nothing to draw. Lines that have one value have
    it written at their end."""
    values = [value for one in series for value in one.values if value is not None]
    if not values:
        return ""
    ticks = ticks_of(min(values), max(values))
    low, high = ticks[0], ticks[-1]

    def left(value: float) -> str:
        return f"left:{100 * (value - low) / (high - low):.2f}%"

    grid = "".join(f'<i style="{left(tick)}"></i>' for tick in ticks)
    parts = []
    for number, line in enumerate(lines):
        odd = "" if number % 2 else " odd"
        there = [(place, one.name, one.values[number]) for place, one in enumerate(series)]
        dots, known = "", []
        for place, name, value in there:
            if value is not None:
                known.append(shown(value, title))
                what = html.escape(f"{line}, {name}: {known[-1]}")
                dots += f'<u class="c{place % COLOURS}" style="{left(value)}" title="{what}"></u>'
        label = html.escape(line)
        parts.append(
            f'<div class="name{odd}" title="{label}">{label}</div>'
            f'<div class="cell{odd}"><div class="track">{grid}{dots}</div></div>'
            f'<div class="value{odd}">{known[0] if len(known) == 1 else ""}</div>'
        )
    scale = "".join(f'<span style="{left(tick)}">{tick:g}</span>' for tick in ticks)
    parts.append(f'<div></div><div><div class="ticks">{scale}</div></div><div></div>')
    return f'<h3>{html.escape(title)}</h3>{_key(series)}<div class="chart">{"".join(parts)}</div>'


def bars(title: str, lines: Sequence[str], counts: Sequence[int]) -> str:
    """A heading, and a bar for every count with the count at its end; "" where there is nothing to draw."""
    longest = max(counts, default=0)
    if not longest:
        return ""
    parts = []
    for number, (line, count) in enumerate(zip(lines, counts, strict=True)):
        odd = "" if number % 2 else " odd"
        parts.append(
            f'<div class="name{odd}">{html.escape(line)}</div>'
            f'<div class="cell{odd}"><div class="track">'
            f'<b class="c0" style="width:{100 * count / longest:.2f}%"></b></div></div>'
            f'<div class="value{odd}">{count:,}</div>'
        )
    return f'<h3>{html.escape(title)}</h3><div class="chart">{"".join(parts)}</div>'


def _key(series: Sequence[Series]) -> str:
    """What the colours are, where there are several."""
    if len(series) < 2:
        return ""
    names = (
        f'<span><u class="c{place % COLOURS}"></u>{html.escape(one.name)}</span>'
        for place, one in enumerate(series)
    )
    return f'<p class="key">{"".join(names)}</p>'


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
