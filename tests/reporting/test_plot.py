"""Pictures of scores."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from xml.dom import minidom

import numpy as np
import pytest

from mexma_cli.reporting import plot
from mexma_cli.reporting.align_page import draw_alignment
from mexma_cli.reporting.plot import draw_scores

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def test_a_title_may_be_any_name(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    pytest.importorskip("matplotlib")
    picture = tmp_path / "scores.svg"
    title = "Scores of $\\x$ \x1b[2J \udce9\ufffe \u65e5.tsv"  # no formula, no control characters in XML
    draw_scores(picture, np.array([1.0, 1.2]), np.array([True, False]), 1.1, title)
    text = minidom.parse(str(picture)).toxml()
    assert "Scores of $\\x$ \\u001b[2J \\udce9\\ufffe \u65e5.tsv" in text and not recwarn.list


def test_the_legend_is_beside_the_axes_and_in_the_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")
    drawn: list[Figure] = []
    monkeypatch.setattr(plot, "save", lambda figure, path: drawn.append(figure))
    scores, right = np.linspace(-1, 1.2, 400), np.full(400, 0.5)
    labels = "right, as estimated: 1,234", "wrong, as estimated: 1,234"  # as long as with 123,456,789 pairs
    draw_scores(tmp_path / "a.png", scores, right, -1.0651, "Scores", labels)
    (figure,) = drawn
    figure.draw_without_rendering()
    (legend,) = figure.legends
    around = legend.get_window_extent()
    assert not around.overlaps(figure.axes[0].get_window_extent())
    assert figure.bbox.x0 <= around.x0 and around.x1 <= figure.bbox.x1 and around.y0 >= figure.bbox.y0


def test_an_alignment_of_a_hundred_thousand_sentences_is_a_small_file(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    sizes = []
    for count in (5, 100_000):
        steps = np.tile([(1, 1), (1, 2), (1, 0), (0, 1), (1, 1)], (count // 5, 1))
        after = steps.cumsum(axis=0)
        places, kept = np.stack([after - steps, after], axis=2), np.arange(len(steps)) % 5 != 4
        ends = np.stack([np.zeros(2, np.int64), after[-1]])
        draw_alignment(tmp_path / "a.svg", places, kept, ends, ("a_b$.txt", "b.txt"))
        text = (tmp_path / "a.svg").read_text(encoding="utf-8")
        sizes.append(len(text))
        assert "sentence of a_b$.txt" in text and "prefers-color-scheme: dark" in text
        assert f"left out: {2 * count // 5:,} and {2 * count // 5:,} sentences" in text
    assert sizes[1] < 100_000
