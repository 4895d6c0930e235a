"""The compiled loops against NumPy."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from mexma_cli.mining.kernels import dots


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_dots_are_dot_products_whatever_the_slices(two_threads):
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((300, 64), np.float32), rng.standard_normal((200, 64), np.float32)
    rows, columns = rng.integers(0, 300, 70_000), rng.integers(0, 200, 70_000)
    found = dots(x, y, rows, columns)
    exact = (x.astype(np.float64) @ y.T.astype(np.float64))[rows, columns]
    assert found.dtype == np.float32
    assert np.abs(found - exact).max() < 1e-4
    piecewise = np.concatenate([dots(x, y, rows[i : i + 7], columns[i : i + 7]) for i in range(0, 700, 7)])
    assert (piecewise == found[:700]).all()


def test_the_first_use_says_what_it_waits_for(tmp_path: Path) -> None:
    """Once, and not where the compiled code is on the disk already."""
    script = (
        "import logging, numpy as np; logging.basicConfig(level=logging.INFO);"
        "from mexma_cli.mining.kernels import dots;"
        "x, rows = np.ones((2, 8), np.float32), np.zeros(1, np.int64);"
        "print(dots(x, x, rows, rows), dots(x[:1], x[:1], rows, rows))"
    )
    told = [
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        ).stderr.count("compiling inner loops")
        for _ in range(2)
    ]
    assert told == [1, 0]
