"""The picture of training runs: every curve in a panel of its own, a colour a run, phases in a row."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mexma_cli.errors import MexmaError
from mexma_cli.reporting import curves, plot
from mexma_cli.reporting.templates import write_page

FORMATS = (*plot.FORMATS, ".html")
MANY = 80
"""A curve with so many points or more is drawn smoothed, over a pale line of the points."""
FEW = 30
"""Curves with at most so many points have a mark at each."""
PEAKS = ("learning_rate", "tokens_per_second")
DASHES = ("-", "--", ":", "-.", (0, (6, 2, 1, 2, 1, 2)), (0, (1, 1)), (0, (8, 3)))
"""A run's, with its colour: lines are told apart in grey, too."""
LEAST_SPAN = 0.05
"""An axis spans at least this share of its values; else their noise would fill the panel."""
COLUMNS = 2
"""So that a picture can be read where it is 500 pixels wide."""


def draw_curves(path: Path, runs: Sequence[curves.RunCurves]) -> None:
    """Draw the runs' curves over the steps of all their phases into a .png, .svg, .pdf, or a .html with the
    table below the picture; written whole. Runs without a number are refused."""
    names = curves.names(runs)
    if not names:
        raise MexmaError(f"{', '.join(run.name for run in runs)}: no number in the log to draw")
    if path.suffix.lower() == ".html":
        title, pictures = ", ".join(run.name for run in runs), _pictures(names, runs)
        write_page(path, "reporting/curves.html", title=title, pictures=pictures, table=curves.table(runs))
        return
    columns = min(COLUMNS, len(names))
    rows = -(-len(names) // columns)
    figure = plot.new_figure(3.4 * columns, 2.2 * rows + 0.4)
    panels = list(figure.subplots(rows, columns, squeeze=False).flat)
    for place, axes in enumerate(panels):
        if place >= len(names):
            axes.remove()
            continue
        _draw_panel(axes, names[place], runs)
        if place < columns:
            _name_phases(axes, runs)
        lowest = place + columns >= len(names)
        axes.tick_params(labelbottom=lowest)
        axes.set_xlabel("step" if lowest else "")
    if len(runs) > 1:
        _name_runs(figure, runs)
    else:
        figure.suptitle(runs[0].name, x=0.01, ha="left", fontsize=12, parse_math=False)
    plot.save(figure, path)


def _name_runs(figure: Any, runs: Sequence[curves.RunCurves], columns: int = COLUMNS) -> None:
    """The legend. Names come in afterwards: matplotlib leaves out those that begin with `_`."""
    from matplotlib.lines import Line2D

    looks = map(_look, range(len(runs)))
    lines = [Line2D([], [], color=colour, linestyle=dash, linewidth=2) for colour, dash in looks]
    numbers = [str(number) for number in range(len(runs))]
    legend = figure.legend(
        lines, numbers, loc="outside upper left", ncols=min(len(runs), columns), frameon=False
    )
    for text, run in zip(legend.get_texts(), runs, strict=True):
        text.set_parse_math(False)  # `$` is a character of a name, not the start of a formula
        text.set_text(run.name)


def _look(number: int) -> tuple[str, Any]:
    """Colour and dash of a run's lines."""
    return plot.COLOURS[number % len(plot.COLOURS)], DASHES[number % len(DASHES)]


def _draw_panel(axes: Any, name: str, runs: Sequence[curves.RunCurves]) -> None:
    spans = curves.spans(runs)
    for number, run in enumerate(runs):
        colour, dash = _look(number)
        for phase in run.phases:
            if name in phase.curves:
                _draw_curve(axes, phase.curves[name], spans[phase.name][0], colour, dash)
    last = max(end for _, end in spans.values())
    for _, end in spans.values():
        if end != last:
            axes.axvline(end, color="#8a8a8a", linewidth=0.8, linestyle=(0, (4, 3)), zorder=0)
    axes.set_title(curves.title(name), loc="left", fontsize=10)
    _scale(axes, name, runs)
    axes.set_xlim(0, 1.015 * last)
    plot.tidy(axes, grid=True)
    axes.xaxis.set_major_formatter(plot.short)
    axes.xaxis.get_major_locator().set_params(nbins=6, integer=True)


def _draw_curve(axes: Any, curve: curves.TrainingCurve, start: int, colour: str, dash: Any) -> None:
    steps, values = start + np.array(curve.steps), np.array(curve.values)
    if len(values) >= MANY:
        axes.plot(steps, values, color=colour, alpha=0.25, linewidth=0.7)
        values = curve.smoothed()
    marker = "o" if len(values) <= FEW else None
    axes.plot(steps, values, color=colour, linestyle=dash, linewidth=1.6, marker=marker, markersize=3)


def _scale(axes: Any, name: str, runs: Sequence[curves.RunCurves]) -> None:
    """A logarithmic axis where a linear one would flatten a phase, or a run, against the bottom."""
    found = [phase.curves[name] for run in runs for phase in run.phases if name in phase.curves]
    # Of many points the smoothed ones: a single step's noise is no reason for another scale.
    shown = [list(one.smoothed() if len(one.values) >= MANY else one.values) for one in found]
    # Rates end near 0, and that says nothing: their peaks are what must be seen.
    low, high = min(map(max if name in PEAKS else min, shown)), max(map(max, shown))
    if low > 0 and high > (10 if name in PEAKS else 50) * low:
        axes.set_yscale("log")
        if name in PEAKS:
            axes.set_ylim(bottom=low / 30)
    elif name in PEAKS:
        axes.set_ylim(bottom=0)
    elif high - low < (least := LEAST_SPAN * max(abs(low), abs(high))):
        middle = (low + high) / 2
        axes.set_ylim(middle - least / 2, middle + least / 2)
    if axes.get_yscale() == "linear":
        axes.yaxis.set_major_formatter(plot.short)


def _name_phases(axes: Any, runs: Sequence[curves.RunCurves]) -> None:
    """The phases' names, between the panel and its title; a short phase, next to a long one, has none."""
    spans = curves.spans(runs)
    if len(spans) < 2:
        return
    whole = max(end for _, end in spans.values())
    for name, (start, end) in spans.items():
        if end - start > 0.12 * whole:
            axes.annotate(
                name,
                ((start + end) / 2, 1.0),
                xycoords=("data", "axes fraction"),
                xytext=(0, 2),
                textcoords="offset points",
                ha="center",
                fontsize=8,
                color="#6a6a6a",
            )
    axes.set_title(axes.get_title(loc="left"), loc="left", fontsize=10, pad=16)


def _pictures(names: Sequence[str], runs: Sequence[curves.RunCurves]) -> list[str]:
    """The SVG of each panel, for a web page; before them, of several runs, that of their names."""
    pictures = []
    for name in names:
        figure = plot.new_figure(4.4, 2.7)
        axes = figure.add_subplot()
        _draw_panel(axes, name, runs)
        _name_phases(axes, runs)
        axes.set_xlabel("step", fontsize=9)
        pictures.append(plot.inline(figure))
    if len(runs) > 1:
        figure = plot.new_figure(4.4, 0.1 + 0.2 * len(runs))
        _name_runs(figure, runs, columns=1)
        pictures.insert(0, plot.inline(figure))
    return pictures
