"""Dots on a scale: a line for every name, a colour for every series. The template parts.html draws them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

NO_MORE = 1e-6
"""Values that differ by less are equal: means of the same numbers in another order."""


@dataclass(frozen=True)
class Series:
    """Values of a name, one for each line of a chart; None: there is none."""

    name: str
    values: Sequence[float | None]


@dataclass(frozen=True)
class Chart:
    """The content of a chart: a dot for every value. Lines with one value have it written at their end."""

    title: str
    lines: Sequence[str]
    series: Sequence[Series]

    @cached_property
    def ticks(self) -> list[float]:
        """Round numbers on the scale, from its left end to its right one."""
        values = [value for one in self.series for value in one.values if value is not None]
        return ticks_of(min(values), max(values))

    def place(self, value: float) -> str:
        """Where a value is, in percent of the scale."""
        low, high = self.ticks[0], self.ticks[-1]
        return f"{100 * (value - low) / (high - low):.2f}"


def ticks_of(low: float, high: float) -> list[float]:
    """Round numbers from at most `low` to at least `high`, from 0 where `low` is not far from it."""
    if 0 <= low < 0.6 * high:
        low = 0.0
    if high - low < NO_MORE:
        low, high = low - 1, low + 1
    rough = (high - low) / 5
    step = 10.0 ** math.floor(math.log10(rough))
    step *= next(factor for factor in (1, 2, 5, 10) if step * factor >= rough)
    first, last = math.floor(low / step), math.ceil(high / step)
    return [round(step * number, 10) for number in range(first, last + 1)]
