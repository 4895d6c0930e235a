"""What LASER's and MEXMA's own programs printed: the numbers of tests/fixtures (README.md there)."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

FIXTURES = Path(__file__).parent / "fixtures"


@cache
def laser() -> dict[str, np.ndarray]:
    """Arrays by name: vectors as float32, rows as int16, scores as float32."""
    arrays = dict(np.load(FIXTURES / "laser.npz"))
    return {name: a.astype(np.float32) if a.dtype == np.float16 else a for name, a in arrays.items()}


def laser_text(side: str) -> list[str]:
    """A sentence for each vector of `src` or `tgt`: its letter and its row."""
    return [f"{side[0]}-{row}" for row in range(len(laser()[side]))]


def laser_mined(retrieval: str, margin: str, k: int) -> dict[tuple[int, int], float]:
    """The score of each pair of rows that mine_bitexts.py wrote."""
    case = f"mine.{retrieval}.{margin}.k{k}"
    rows, scores = laser()[f"{case}.rows"].tolist(), laser()[f"{case}.scores"].tolist()
    return dict(zip(map(tuple, rows), scores, strict=True))


def laser_printed(program: str) -> dict[tuple[str, int], Any]:
    """By margin and k what `bucc` (threshold, precision, recall, F1) or `xsim` (errors) printed."""
    cases = json.loads((FIXTURES / "laser.json").read_text())[program]
    return {(name.split(".k")[0], int(name.split(".k")[1])): value for name, value in cases.items()}
