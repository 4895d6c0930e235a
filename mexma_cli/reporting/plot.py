"""Pictures: what can be drawn and written, and the picture of a score distribution."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mexma_cli.errors import MexmaError, require
from mexma_cli.files import whole_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = (".png", ".svg", ".pdf")


def check_plottable(path: Path, formats: Sequence[str] = FORMATS) -> None:
    """Find out before the work that a picture can be drawn after it.

    Raises:
        MexmaError: matplotlib is not installed, or such a file cannot be written.
    """
    if path.suffix.lower() not in formats:
        known = f"{', '.join(formats[:-1])} or {formats[-1]}"
        raise MexmaError(f"{path}: a picture can be {known}", "give it another name")
    require("matplotlib", "plot", "a picture")


def save(figure: Figure, path: Path) -> None:
    """Write a picture in the format that the path's ending says; whole."""
    with whole_file(path) as file:
        figure.savefig(file, format=path.suffix.lstrip(".").lower())


def draw_scores(
    path: Path,
    scores: np.ndarray,
    right: np.ndarray,
    threshold: float,
    title: str,
    labels: tuple[str, str] = ("in the gold list", "not in it"),
) -> None:
    """Draw a stacked histogram of scores, right pairs against the others, with the threshold as a line.

    Args:
        path: .png, .svg or .pdf; written whole.
        scores: float [n].
        right: bool [n], or how probably each is right, float [n].
        labels: what right pairs, and the others, are.
    """
    check_plottable(path)
    from matplotlib.figure import Figure

    low, high = np.quantile(scores, [0.001, 0.999])  # a few far scores must not squeeze the rest
    low, high = min(low, threshold), max(high, threshold)
    edges = np.linspace(low, high if high > low else low + 1e-3, 61)
    inside = np.clip(scores, edges[0], edges[-1])
    figure = Figure(figsize=(8, 4.5), dpi=150, layout="constrained")
    axes = figure.add_subplot()
    axes.hist(
        [inside, inside],
        weights=[right.astype(float), 1.0 - right],
        bins=edges.tolist(),
        stacked=True,
        color=["#0072b2", "#b8b8b8"],
        edgecolor="white",
        linewidth=0.4,
        label=[f"{labels[0]} ({right.sum():,.0f})", f"{labels[1]} ({(1.0 - right).sum():,.0f})"],
    )
    axes.axvline(threshold, color="#d55e00", linewidth=2, label=f"threshold {threshold:.4f}")
    axes.set_xlabel("score")
    axes.set_ylabel("pairs")
    axes.set_title(title, parse_math=False)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    save(figure, path)
