"""Counts, sizes, times and results in words."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any

NAMED = 3
"""Names that a message has, at most."""
_BRIEF = 119  # characters of a result on one line
_UNITS = (("TB", 1e12), ("GB", 1e9), ("MB", 1e6))


def counted(count: int, one: str, several: str | None = None) -> str:
    """``1 line``, ``2,000 lines``; `several` where that is not `one` and an s."""
    return f"{count:,} {one if count == 1 else several or one + 's'}"


def such_as(names: Sequence[str]) -> str:
    """``, such as Amos, Joel``: the first of some names; nothing for none."""
    return f", such as {', '.join(names[:NAMED])}" if names else ""


def brief(found: Any) -> str:
    """The `repr` of a result: its fields on one line of less than 120 characters, numbers with four digits,
    arrays by their types and shapes, collections by how many there are."""
    names = getattr(found, "_fields", None) or found.__dataclass_fields__
    parts = [f"{name}={_brief(getattr(found, name))}" for name in names if name[0] != "_"]
    said = f"{type(found).__name__}({', '.join(parts)})"
    return said if len(said) <= _BRIEF else f"{said[: _BRIEF - 4]}...)"


def _brief(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    if isinstance(value, str | int | None):
        return repr(value)
    if hasattr(value, "dtype"):
        return f"{value.dtype}{list(value.shape)}"
    if isinstance(value, tuple) and all(isinstance(one, float) for one in value):
        return f"({', '.join(map(_brief, value))})"
    return f"{len(value)} in all" if isinstance(value, Sized) else f"{type(value).__name__}(...)"


def shortest(numbers: Iterable[Any]) -> Iterator[float]:
    """NumPy's float32 as Python's floats with the fewest digits that are rounded to them: 0.1, and not
    0.10000000149011612."""
    return (float(str(number)) for number in numbers)


def size(count: int) -> str:
    """Bytes with a unit that leaves a number to be seen: ``1.5 GB``, ``12 kB``, ``7 bytes``."""
    for unit, scale in _UNITS:
        if count >= scale:
            return f"{count / scale:.1f} {unit}"
    return f"{count / 1e3:.0f} kB" if count >= 1e3 else counted(count, "byte")


def size_option(count: int) -> str:
    """Bytes as an option takes them, never fewer: ``1.6G``, ``650M``, ``313K``."""
    for unit, scale in _UNITS:
        if count >= scale:
            return f"{math.ceil(count / scale * 10) / 10:.1f}".removesuffix(".0") + unit[0]
    return f"{math.ceil(count / 1e3)}K"


def time_needed(seconds: float) -> str:
    """An estimated time in words, as exactly as such an estimate is: ``about 3 minutes``."""
    if seconds < 90:
        return f"about {max(seconds, 0.1):.1f} s"
    if seconds < 5400:
        return f"about {seconds / 60:.0f} minutes"
    return f"about {seconds / 3600:.1f} hours" if seconds < 172800 else f"about {seconds / 86400:.1f} days"


def hours_needed(hours: float) -> str:
    """Hours of a core or GPU in words: ``1,200 hours``, ``3.0 minutes``."""
    return f"{hours:,.0f} hours" if hours >= 2 else time_needed(3600 * hours).removeprefix("about ")
