"""Tables for people."""

from __future__ import annotations

from collections.abc import Sequence

import click

from mexma_cli.text.columns import aligned


def print_table(rows: Sequence[Sequence[str]], names: int) -> None:
    """Columns under their headers, the first `names` to the left, numbers to the right."""
    for line in aligned(rows, names):
        click.echo(line)
