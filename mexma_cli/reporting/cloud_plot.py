"""The picture of meanings and languages of two languages' sentences (ORACLE paper, Figure 5)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from mexma_cli.reporting.plot import COLOURS, check_plottable, new_figure, save

OF_CLOUDS = {
    ("language", "eng"): COLOURS[4],
    ("language", "xx"): COLOURS[2],
    ("meaning", "eng"): COLOURS[1],
    ("meaning", "xx"): COLOURS[0],
}
"""The figure's orange, green, red and blue."""
Clouds = Mapping[tuple[str, str], np.ndarray]
"""By part and side as in `OF_CLOUDS`: float [N, 2]."""


def draw_clouds(path: Path, panels: Mapping[str, Clouds], title: str) -> None:
    """Draw the four clouds of each language, a panel a language.

    Args:
        path: .png, .svg or .pdf; written whole.
        panels: By language.
    """
    check_plottable(path)
    columns = min(2, len(panels))
    lines = math.ceil(len(panels) / columns)
    figure = new_figure(max(4.4, 3.3 * columns), (4.2 if columns == 1 else 3.2) * lines + 0.9)
    for place, (language, clouds) in enumerate(panels.items(), 1):
        axes = figure.add_subplot(lines, columns, place)
        for key, colour in OF_CLOUDS.items():
            x, y = clouds[key].T
            # The meanings lie on one another if all is well: hollow marks let both be seen.
            face = "none" if key[0] == "meaning" else colour
            axes.scatter(
                x,
                y,
                s=12,
                marker="o" if key[1] == "eng" else "^",
                facecolors=face,
                edgecolors=colour,
                linewidths=0.5,
                alpha=0.6,
                label=f"{key[0]}, {'English' if key[1] == 'eng' else 'other language'}",
            )
        axes.set_title(language, fontsize=10)
        axes.set_xticks([])
        axes.set_yticks([])
        axes.set_xlabel("first principal component", fontsize=9)
        axes.set_ylabel("second principal component", fontsize=9)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    below = "outside lower center"
    figure.legend(handles, labels, loc=below, ncols=2, frameon=False, fontsize=9, markerscale=1.5)
    figure.suptitle(title, fontsize=11, parse_math=False)
    save(figure, path)
