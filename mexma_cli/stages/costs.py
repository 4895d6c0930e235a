"""What work costs: a + b rows + c cells, measured once, scaled by the speed of this machine."""

from __future__ import annotations

import time
from functools import cache
from typing import NamedTuple

import numpy as np

PEAKS = {"H100": 989e12, "A100": 312e12}
"""Operations a second of NVIDIA's data sheets: SXM, bfloat16, dense."""
_SORTED, _SORTING = 1 << 16, 0.0155  # numbers, and the seconds that sorting them took where costs are from


class Cost(NamedTuple):
    """Costs of one kind of work, in seconds of the processor, of all threads together.

    Attributes:
        start: Once in every process, to load what the work needs.
        unit: For each unit.
        row: For each row, or line, that its units read.
        cell: For each product that they compute, and each dimension.
        threads: Whether rows and cells are shared by all threads of the process.
    """

    start: float
    unit: float
    row: float
    cell: float = 0.0
    threads: bool = True

    def times(self, factor: float) -> Cost:
        """The cost on a machine that is slower by a factor."""
        start, unit, row, cell = (factor * number for number in self[:4])
        return Cost(start, unit, row, cell, self.threads)

    def of(self, units: float, rows: float, cells: float) -> float:
        """Seconds of so many units, which read so many rows and compute so many cells (times dimensions), but
        for the start."""
        return units * self.unit + rows * self.row + cells * self.cell

    def by_the_clock(self, amounts: tuple[float, float, float], jobs: int, threads: int) -> float:
        """Seconds by the clock of units, rows and cells as in `of`, with the start, in so many processes that
        share so many threads."""
        jobs = min(jobs, max(1, round(amounts[0])))
        alone, shared = self.of(amounts[0], 0, 0), self.of(0, *amounts[1:])
        return self.start + alone / jobs + shared / (threads if self.threads else jobs)


STARTING, LOADING = 0.35, 0.25
"""Seconds in which a command, or a worker of a run, is loaded, and `mini`, where these costs are from."""
MINING = Cost(0.4, 0.6, 1.7e-4, threads=False)
"""The cost of making pairs of neighbours by probability."""
_MARGINS, _WITHIN = Cost(0.05, 0.02, 1e-5, threads=False), Cost(0.05, 0.02, 4e-5, threads=False)


def mining_cost(probable: bool, within: bool) -> Cost:
    """The cost of making pairs of neighbours on this machine: by probability or by margin, perhaps `within`
    documents."""
    return (MINING if probable else _WITHIN if within else _MARGINS).times(slowness())


@cache
def slowness() -> float:
    """How many times as long as where costs are from this machine takes for the same; what is sorted are
    Python's own numbers, which no processor has instructions for."""
    numbers, taken = np.random.default_rng(0).integers(0, 1 << 40, _SORTED).tolist(), []
    for _ in range(3):
        began = time.perf_counter()
        sorted(numbers)
        taken.append(time.perf_counter() - began)
    return min(taken) / _SORTING
