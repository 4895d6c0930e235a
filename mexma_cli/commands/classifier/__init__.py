"""`mexma classifier`: a group."""

from __future__ import annotations

import click

from mexma_cli.lazy import LazyGroup

TABLE = {"train": "Train a classifier of pairs on parallel text of your own."}


@click.group("classifier", cls=LazyGroup, tables={"Commands": TABLE}, package=__name__)
def command() -> None:
    """Make the weights that give pairs their probabilities, for your own languages and encoder."""
