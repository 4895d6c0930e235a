"""What a search holds at its peak."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

PEAK = """
import dataclasses, resource, sys
import numpy as np, torch
from mexma_cli.knn import arithmetic, sweep, tiles
from mexma_cli.knn.exact import knn
from mexma_cli.knn.sweep import bytes_needed

class File:
    def __init__(self, path, rows, dim):
        self.path, self.rows, self.dim = path, rows, dim

    def vectors(self, start, stop):
        count = (stop - start) * self.dim
        found = np.fromfile(self.path, np.float16, count, offset=2 * self.dim * start)
        return found.reshape(-1, self.dim).astype(np.float32)

torch.set_num_threads(2)
kind = dataclasses.replace(getattr(arithmetic, sys.argv[2]), width=int(sys.argv[3]) or None)
sweep.choose_arithmetic = lambda *_: kind
x, y = (File(sys.argv[1], 2 * rows, 768) for rows in (tiles.X_TILE, tiles.Y_TILE))
small = np.random.default_rng(0).standard_normal((900, 768), dtype=np.float32)
knn(small, small, 16)  # libraries and compiled code are no part of it
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
before, allowed = peak(), bytes_needed(x.rows, y.rows, x.dim, 16, tiles.X_TILE)
knn(x, y, 16, memory=allowed)
print(peak() - before, allowed)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="counts the peak as Linux does")
@pytest.mark.parametrize(("arithmetic", "width"), [("FLOAT32", 512), ("BFLOAT16", 0)])
def test_holds_no_more_than_it_is_given(tmp_path: Path, arithmetic: str, width: int) -> None:
    """Two blocks of a side at a time, or results of products that the C library keeps, would be too much."""
    path = tmp_path / "vectors"
    vectors = np.random.default_rng(1).standard_normal((2 * 8192, 768), dtype=np.float32)
    vectors.astype(np.float16).tofile(path)
    command = [sys.executable, "-c", PEAK, str(path), arithmetic, str(width)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    taken, allowed = map(int, done.stdout.split())
    assert taken < allowed
