"""The compiled loops against NumPy."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from mexma_cli.knn.scanning import kth_best
from mexma_cli.knn.sides import dots


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


@pytest.mark.parametrize("different", [2, 7, 1000])
def test_the_kth_best_are_those_of_sorted_columns(different: int) -> None:
    rng = np.random.default_rng(different)
    for rows in (1, 2, 3, 5, 16, 128):
        groups = rng.integers(0, different, (rows, 50)).astype(np.float32)
        groups[rng.random(groups.shape) < 0.1] = -np.inf
        for k in range(1, rows + 1):
            floors = np.empty(50, dtype=np.float32)
            kth_best(groups, k, floors)
            assert np.array_equal(floors, np.sort(groups, axis=0)[rows - k])


COMPILES = """
import numpy as np
from numba.core.event import RecordingListener, install_listener
from mexma_cli.knn.scanning import kth_best
listener = RecordingListener()
with install_listener("numba:compile", listener):
    kth_best(np.zeros((4, 3), np.float32), 2, np.zeros(3, np.float32))
print(len(listener.buffer) // 2)
"""


def test_little_is_compiled_for_the_kth_best(tmp_path: Path) -> None:
    """np.partition brings sixty functions along: half of a first search was compiling them."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    run = [sys.executable, "-c", COMPILES]
    done = subprocess.run(run, env=environment, capture_output=True, text=True, check=True)
    assert 1 < int(done.stdout) < 10
