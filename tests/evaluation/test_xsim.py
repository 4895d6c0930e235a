from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mexma_cli.evaluation.xsim import xsim


def test_counts_errors_as_laser(shared: Path) -> None:
    folder = shared / "fixtures" / "laser"
    x, y = (
        np.fromfile(folder / name, np.float32).reshape(-1, 64) for name in ("xsim.src.f32", "xsim.tgt.f32")
    )
    before = x.copy()
    for line in (folder / "xsim.txt").read_text().splitlines():
        margin, k, errors, total = line.split()
        found = xsim(x, y, margin, int(k))
        assert (found.errors, found.total) == (int(errors), int(total)), line
    np.testing.assert_array_equal(x, before)  # LASER normalises its caller's arrays in place


def test_more_neighbours_than_rows() -> None:
    x = np.eye(3, dtype=np.float32)
    found = xsim(x, x[[0, 2, 1]], k=16)
    assert (found.errors, found.error_rate) == (2, pytest.approx(200 / 3))


def test_sides_must_be_aligned() -> None:
    with pytest.raises(ValueError, match="aligned"):
        xsim(np.ones((3, 2), np.float32), np.ones((2, 2), np.float32))
