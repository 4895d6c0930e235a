"""An alignment as a picture, or with its texts side by side on one web page (template alignment.html)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from mexma_cli.formats.documents import DocumentPair
from mexma_cli.reporting.plot import COLOURS, GREY, INK, PALE, new_figure, save, short, tidy
from mexma_cli.reporting.templates import write_page

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST = 20_000
"""So many alignments and sentences that are alone are shown; a browser is slow with more."""
BORDERS = (0.2, 0.4, 0.6)
"""Scores from which an alignment has the next colour."""


def write_alignment_page(path: Path, pairs: Iterable[DocumentPair], names: tuple[str, str]) -> None:
    """Write the page of some pairs of documents, of which the first are shown (see `MOST`), whole: everything
    in the file, to be opened anywhere."""
    documents: list[dict[str, Any]] = []
    left = MOST
    for pair in pairs:
        if not left:
            break
        documents.append(_document(pair, left))
        left -= len(documents[-1]["beads"])
    write_page(
        path,
        "reporting/alignment.html",
        title=" and ".join(names),
        documents=documents,
        levels=[f"under {BORDERS[0]}", *(f"{low} or more" for low in BORDERS)],
        shortened=None if left else f"{MOST:,}",
    )


def _document(pair: DocumentPair, most: int) -> dict[str, Any]:
    both = [score for (x, y), score in zip(pair.beads, pair.scores, strict=True) if x and y]
    levels = list(map(_level, pair.beads, pair.scores))
    beads = list(zip(pair.beads, pair.scores, levels, strict=True))
    counts = Counter((level, side) for bead, _, level in beads for side in (0, 1) for _ in bead[side])
    alone, dropped = ([counts[kind, side] for side in (0, 1)] for kind in ("alone", "dropped"))
    names = [name for name in dict.fromkeys(pair.names) if name]
    piece = [] if pair.piece is None else [f"piece {pair.piece}"]
    return {
        "title": ", ".join([" and ".join(names), *piece]).removeprefix(", "),
        "alignments": len(both),
        "mean": sum(both) / len(both) if both else None,
        "sizes": [f"{len(side):,}" for side in pair.sentences],
        "alone": [f"{count:,}" for count in alone],
        "dropped": [f"{count:,}" for count in dropped if any(dropped)],
        "beads": [
            {"level": level, "score": score, "sides": [_side(pair, bead, side) for side in (0, 1)]}
            for bead, score, level in beads[:most]
        ],
    }


def _level(bead: tuple[range, range], score: float) -> str:
    """The name of its colour in the template; "dropped" where a filter drops the alignment of a sentence."""
    if all(bead):
        return f"s{sum(score >= low for low in BORDERS)}"
    return "dropped" if score else "alone"


def _side(pair: DocumentPair, bead: tuple[range, range], side: int) -> list[tuple[int, str]]:
    """The sentences of a side with their lines."""
    return [(pair.lines[side][place], pair.sentences[side][place]) for place in bead[side]]


MANY = 400
"""So many alignments are drawn one by one; of more there is the path alone."""
_CORNERS, _BINS, _BORDERS = 1000, 100, 40
"""At most so many places in a path's direction, bars along an axis, and documents with lines between them."""
_KINDS = ("1-1", "n-m", "left out")
_LOOKS: tuple[dict[str, Any], ...] = (
    {"facecolor": COLOURS[0]},
    {"facecolor": COLOURS[5]},
    {"facecolor": "#ffffff", "hatch": "//////", "edgecolor": GREY, "linewidth": 0},
)


def draw_alignment(
    path: Path, places: np.ndarray, kept: np.ndarray, borders: np.ndarray, names: tuple[str, str]
) -> None:
    """Draw the path of an alignment, and along both axes how many sentences are aligned or left out.

    The size of the file does not grow with the number of sentences.

    Args:
        places: int64 [n, 2, 2], in the order of the text: of both sides the first sentence of each alignment
            and the one after its last, the documents laid end to end; equal for a side that has none.
        kept: bool [n], which alignments are written; the sentences of the others are left out.
        borders: int64 [documents + 1, 2], where documents of both sides begin, and the ends of the last.
    """
    from matplotlib.patches import Patch

    sizes = np.diff(places)[..., 0]
    kinds = np.where(kept & (sizes > 0).all(axis=1), np.where((sizes == 1).all(axis=1), 0, 1), 2)
    figure = new_figure(6.4, 6.8)
    grid = figure.add_gridspec(2, 2, width_ratios=(1, 8), height_ratios=(8, 1))
    middle = figure.add_subplot(grid[0, 1])
    left, below = figure.add_subplot(grid[0, 0], sharey=middle), figure.add_subplot(grid[1, 1], sharex=middle)
    _draw_path(middle, places, kinds, borders)
    counts = []
    for side, axes in enumerate((below, left)):
        of_sentence = np.repeat(kinds, sizes[:, side])
        counts.append(np.bincount(of_sentence, minlength=3))
        _draw_shares(axes, of_sentence, side)
        label = f"sentence of {names[side]}{' (paired documents)' * (len(borders) > 2)}"
        (axes.set_ylabel if side else axes.set_xlabel)(label, parse_math=False)
    alignments = np.bincount(kinds, minlength=3)
    labels = [f"{kind}: {count:,}" for kind, count in zip(_KINDS[:2], alignments[:2].tolist(), strict=True)]
    labels.append(f"{_KINDS[2]}: {counts[0][2]:,} and {counts[1][2]:,} sentences")
    handles = [Patch(**look, label=label) for look, label in zip(_LOOKS, labels, strict=True)]
    figure.legend(handles=handles, loc="outside upper center", ncols=3, frameon=False, fontsize=9)
    save(figure, path)


def _draw_path(axes: Axes, places: np.ndarray, kinds: np.ndarray, borders: np.ndarray) -> None:
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Rectangle

    ends = np.maximum(borders[-1], 1)
    if len(borders) <= _BORDERS:
        for x, y in borders[1:-1].tolist():
            axes.axvline(x, color=PALE, linewidth=0.8)
            axes.axhline(y, color=PALE, linewidth=0.8)
    corners = np.concatenate([borders[:1], places[:, :, 1]])
    cells = corners * _CORNERS // ends
    corners = corners[np.append(True, (np.diff(cells, axis=0) > 0).any(axis=1))]
    axes.plot(*corners.T, color=INK, linewidth=0.8 if len(kinds) <= MANY else 1.6)
    if len(kinds) <= MANY:
        for kind in (0, 1):
            boxes = [
                Rectangle((x, y), after_x - x, after_y - y)
                for (x, after_x), (y, after_y) in places[kinds == kind].tolist()
            ]
            axes.add_collection(PatchCollection(boxes, linewidth=0, zorder=2, **_LOOKS[kind]))
    axes.set_xlim(0, ends[0])
    axes.set_ylim(0, ends[1])
    tidy(axes)
    axes.tick_params(labelbottom=False, labelleft=False)


def _draw_shares(axes: Axes, kinds: np.ndarray, side: int) -> None:
    """Bars along an axis: of the sentences at each place, the shares of every kind, one upon another."""
    from matplotlib.ticker import MaxNLocator, PercentFormatter

    bins = min(len(kinds), _BINS)
    edges = -(-np.arange(bins + 1) * len(kinds) // max(bins, 1))
    low = np.zeros(bins)
    orientation: Literal["horizontal", "vertical"] = "horizontal" if side else "vertical"
    for kind, look in enumerate(_LOOKS):
        high = low + np.add.reduceat(kinds == kind, edges[:-1], dtype=np.int64) / np.diff(edges)
        axes.stairs(high, edges, baseline=low, fill=True, orientation=orientation, **look)
        low = high
    along, across = (axes.yaxis, axes.xaxis) if side else (axes.xaxis, axes.yaxis)
    along.set_major_locator(MaxNLocator(6, integer=True))
    along.set_major_formatter(short)
    across.set_major_locator(MaxNLocator(1))
    across.set_major_formatter(PercentFormatter(1, 0))
    (axes.set_xlim if side else axes.set_ylim)(0, 1)
    (axes.set_xlabel if side else axes.set_ylabel)("share", fontsize=8)
    tidy(axes)
