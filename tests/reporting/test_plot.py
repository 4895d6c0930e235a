"""Pictures of scores."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mexma_cli.reporting.plot import draw_scores


def test_a_title_is_no_formula(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    picture = tmp_path / "scores.svg"
    draw_scores(picture, np.array([1.0, 1.2]), np.array([True, False]), 1.1, r"Scores of $\x$.tsv")
    assert "Scores of" in picture.read_text(encoding="utf-8")
