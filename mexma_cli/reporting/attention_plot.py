"""The pictures of the paper's Figures 7 to 11: how much the first token looks at each of the others."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mexma_cli.reporting.plot import COLOURS, check_plottable, new_figure, save, tidy

log = logging.getLogger(__name__)

INCHES_PER_TOKEN = 0.32


@dataclass(frozen=True)
class AttentionRow:
    """The attention of a sentence's first token.

    Attributes:
        line: Which sentence.
        tokens: Its n tokens, as the tokeniser writes them.
        weights: float32 [heads, n]; the rows sum to 1.
    """

    line: int
    tokens: tuple[str, ...]
    weights: np.ndarray

    @property
    def words(self) -> np.ndarray:
        """`weights` without the first and the last token, summing to 1 again: [heads, n - 2]."""
        inside = self.weights[:, 1:-1]
        return inside / inside.sum(axis=1, keepdims=True)


def draw_attention(path: Path, rows: Sequence[AttentionRow], title: str) -> None:
    """Draw each sentence as bars (words alone, mean of the heads: Figures 7-10), and below them all heads and
    all tokens (Figure 11).

    Args:
        path: .png, .svg or .pdf; written whole.
        rows: At least one, each with a token besides the first and the last.
    """
    check_plottable(path)
    longest = max(len(row.tokens) for row in rows)
    width = max(7.0, 1.5 + INCHES_PER_TOKEN * longest)
    figure = new_figure(width, 4.6 * len(rows) + 0.4)
    figure.suptitle(title, parse_math=False)
    axes = figure.subplots(2 * len(rows), 1, squeeze=False)[:, 0]
    highest = max(float(row.words.mean(axis=0).max()) for row in rows)
    for number, row in enumerate(rows):
        bars, heads = axes[2 * number], axes[2 * number + 1]
        names = [token.replace("▁", "") or "▁" for token in row.tokens]
        bars.bar(range(1, len(names) - 1), row.words.mean(axis=0), color=COLOURS[0])
        bars.set_ylim(0, 1.05 * highest)  # one scale for all sentences
        bars.set_ylabel("share of attention", fontsize=9)
        bars.set_title("words alone, mean of the heads", loc="left", fontsize=10)
        shown = heads.imshow(row.weights, aspect="auto", cmap="viridis", vmin=0.0, interpolation="nearest")
        heads.set_ylabel("head", fontsize=9)
        heads.set_title("all tokens, every head", loc="left", fontsize=10)
        heads.yaxis.get_major_locator().set_params(integer=True)
        scale = figure.colorbar(shown, ax=heads, fraction=0.03, pad=0.01)
        scale.set_label("share of attention", fontsize=9)
        scale.ax.tick_params(labelsize=8)
        for one, places in ((bars, range(1, len(names) - 1)), (heads, range(len(names)))):
            one.set_xlim(-0.5, len(names) - 0.5)
            shown_names = [names[place] for place in places]  # `$$` is a token, not the start of a formula
            one.set_xticks(list(places), shown_names, rotation=60, ha="right", parse_math=False)
            tidy(one)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        save(figure, path)
    if any("missing from font" in str(warning.message) for warning in caught):
        log.warning("%s has boxes for characters that no installed font of matplotlib has", path)
