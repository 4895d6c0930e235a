"""What the package says when its inner loops are compiled."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

MINING = (
    "from mexma_cli.knn.kernels import dots;"
    "x, rows = np.ones((2, 8), np.float32), np.zeros(1, np.int64);"
    "print(dots(x, x, rows, rows), dots(x[:1], x[:1], rows, rows))"
)
TRAINING = (
    "import torch; from mexma_cli.training.dropout import Dropout;"
    "dropout = Dropout(0.5); print(dropout(torch.ones(4, 8)), dropout(torch.ones(2, 8)))"
)


NO_PLACE = (
    "from numba.core import caching;caching.InTreeCacheLocator.from_function = classmethod(lambda *_: None);"
)


def ran(script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", f"import logging, numpy as np; logging.basicConfig(level='INFO'); {script}"],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=True,
    )


def test_the_first_use_says_what_it_waits_for(tmp_path: Path) -> None:
    """Once, and not where the compiled code is on the disk already."""
    runs = [ran(f"{MINING};{TRAINING}", NUMBA_CACHE_DIR=str(tmp_path)) for _ in "ab"]
    assert [run.stderr.count("compiling inner loops") for run in runs] == [1, 0]


def test_nowhere_to_keep_what_is_compiled(tmp_path: Path) -> None:
    """As for a user without a home, in a package that is not the user's."""
    (tmp_path / "file").touch()
    nowhere = str(tmp_path / "file" / "cache")
    found = ran(NO_PLACE + MINING, NUMBA_CACHE_DIR=nowhere, HOME=nowhere, XDG_CACHE_HOME=nowhere)
    assert found.stdout == "[8.] [8.]\n"
    assert found.stderr.count("not kept: NUMBA_CACHE_DIR names no folder") == 1
