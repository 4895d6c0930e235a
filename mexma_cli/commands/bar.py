"""tqdm's bar, whose units are right where one takes seconds, too."""

from __future__ import annotations

from typing import Any

from tqdm import tqdm


class Bar(tqdm):  # type: ignore[type-arg]
    """A bar with a unit such as ` tiles`: 5.00 tiles/s, and 5.00s/tile, which tqdm has as 5.00s/ tiles."""

    @staticmethod
    def format_meter(*args: Any, unit: str = "it", **settings: Any) -> str:
        """What the bar says now."""
        text = str(tqdm.format_meter(*args, unit=unit, **settings))
        several = unit.startswith(" ")
        return text.replace(f"s/{unit}", f"s/{unit.strip().removesuffix('s')}") if several else text
