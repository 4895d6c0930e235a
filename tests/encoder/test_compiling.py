"""What the package says when its inner loops are compiled."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

MINING = (
    "from mexma_cli.mining.kernels import dots;"
    "x, rows = np.ones((2, 8), np.float32), np.zeros(1, np.int64);"
    "print(dots(x, x, rows, rows), dots(x[:1], x[:1], rows, rows))"
)
TRAINING = (
    "import torch; from mexma_cli.training.dropout import Dropout;"
    "dropout = Dropout(0.5); print(dropout(torch.ones(4, 8)), dropout(torch.ones(2, 8)))"
)


@pytest.mark.parametrize("loops", [MINING, TRAINING])
def test_the_first_use_says_what_it_waits_for(tmp_path: Path, loops: str) -> None:
    """Once, and not where the compiled code is on the disk already."""
    script = "import logging, numpy as np; logging.basicConfig(level=logging.INFO);" + loops
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
