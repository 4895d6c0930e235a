"""Pictures: the style of all of them, what can be drawn and written, and the picture of scores."""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from mexma_cli.errors import MexmaError, require, visible
from mexma_cli.files import whole_file
from mexma_cli.text.writing import prepare_output

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = (".png", ".svg", ".pdf")
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
"""Okabe and Ito's, which colour-blind people can tell apart. In print without colour dashes and marks do."""
INK, GREY, PALE = "#1d2126", "#b8b8b8", "#e6e6e6"
"""For lines across a picture, for what is not meant, and for the grid."""
_DARK = dict(zip(COLOURS, ("#4aa8e0", "#f2894a", "#2fc79b", "#e39cc4", "#e6b34a", "#8fd0f5"), strict=False))
_DARK |= {"#ffffff": "#1e2129", "#000000": "#e4e6ea", INK: "#e4e6ea", GREY: "#6b737c", PALE: "#3a4048"}
"""Each colour, and its replacement on a dark screen."""


def check_plottable(path: Path | None, formats: Sequence[str] = FORMATS) -> None:
    """Find out before the work that matplotlib is installed, and that a picture, if one is wanted, can be
    written."""
    if path is None:
        return
    if path.suffix.lower() not in formats:
        known = f"{', '.join(formats[:-1])} or {formats[-1]}"
        raise MexmaError(f"{path}: a picture can be {known}", "give it another name")
    require("matplotlib", "plot", "a picture")
    prepare_output(path)


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of so many inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), dpi=150, layout="constrained")


def tidy(axes: Axes, grid: bool = False) -> None:
    """No frame but the two axes, small numbers, and lines to read values along, if they are wanted."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8)
    if grid:
        axes.grid(axis="y", color=PALE, linewidth=0.7)
        axes.set_axisbelow(True)


def short(value: float, _: object = None) -> str:
    """12,000 as 12k: numbers on an axis, also as a formatter of one."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"


def save(figure: Figure, path: Path) -> None:
    """Write a picture in the format that the path's ending says; whole, and the same bytes every time. An SVG
    is dark on a dark screen."""
    kind = path.suffix.lstrip(".").lower()
    with whole_file(path) as file:
        if kind == "svg":
            rules = [
                f'[style*="{part}: {light}"] {{ {part}: {dark} !important }}'
                for light, dark in _DARK.items()
                for part in ("fill", "stroke")
            ]
            dark = "\n".join(["@media (prefers-color-scheme: dark) {", "text { fill: #e4e6ea }", *rules, "}"])
            file.write(_svg(figure).replace("</style>", f"\n{dark}</style>", 1).encode("utf-8"))
        else:
            _draw(figure, file, format=kind, metadata={"CreationDate": None} if kind == "pdf" else None)


def inline(figure: Figure) -> str:
    """A figure as SVG inside of a page, in the page's ink and colours and on its paper, light or dark."""
    text = _svg(figure, transparent=True)
    text = text[text.index("<svg") :].replace("#000000", "currentColor").replace(PALE, "var(--rule)")
    for number, colour in enumerate(COLOURS[:-1]):
        text = text.replace(colour, f"var(--c{number})")
    return text


def _svg(figure: Figure, **how: Any) -> str:
    """A figure as SVG; its text stays text."""
    import matplotlib

    picture = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "mexma"}):
        _draw(figure, picture, format="svg", metadata={"Date": None}, **how)
    return picture.getvalue()


def _draw(figure: Figure, file: IO[Any], **how: Any) -> None:
    """Draw the figure. Names in it may be no Unicode, have control characters, or letters of any font."""
    from matplotlib.text import Text

    for text in figure.findobj(Text):
        assert isinstance(text, Text)
        text.set_text(visible(text.get_text()))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")
        figure.savefig(file, **how)


def draw_scores(
    path: Path,
    scores: np.ndarray,
    right: np.ndarray,
    threshold: float,
    title: str,
    labels: tuple[str, str] = ("in the gold list", "not in it"),
) -> None:
    """Draw a stacked histogram of scores, float [n], with the threshold as a line: pairs that are `right`,
    bool [n] or how probably, float [n], against the others; `labels` says what both are."""
    low, high = np.quantile(scores, [0.001, 0.999])  # a few far scores must not squeeze the rest
    low, high = min(low, threshold), max(high, threshold)
    edges = np.linspace(low, high if high > low else low + 1e-3, 61)
    inside = np.clip(scores, edges[0], edges[-1])
    figure = new_figure(6.4, 3.8)
    axes = figure.add_subplot()
    axes.hist(
        [inside, inside],
        weights=[right.astype(float), 1.0 - right],
        bins=edges.tolist(),
        stacked=True,
        color=[COLOURS[0], GREY],
        edgecolor="white",
        linewidth=0.4,
        label=[f"{labels[0]} ({right.sum():,.0f})", f"{labels[1]} ({(1.0 - right).sum():,.0f})"],
    )
    axes.axvline(threshold, color=INK, linewidth=1.6, linestyle="--", label=f"threshold {threshold:z.4f}")
    axes.set_xlabel("score")
    axes.set_ylabel(f"pairs in each {edges[1] - edges[0]:.2g} of score")
    axes.yaxis.set_major_formatter(short)
    axes.set_title(title, parse_math=False)
    tidy(axes, grid=True)
    # Beside the axes: the line may be anywhere in them.
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=8, columnspacing=1.2)
    save(figure, path)
