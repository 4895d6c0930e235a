"""Tables for people."""

from __future__ import annotations

from collections.abc import Sequence

import click


def print_table(rows: Sequence[Sequence[str]], names: int) -> None:
    """Columns under their headers, the first `names` to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [
            cell.ljust(width) if place < names else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        click.echo("  ".join(cells).rstrip())
