"""Asks in the terminal which pairs are right."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import click

from mexma_cli.errors import visible
from mexma_cli.text.amounts import counted

if TYPE_CHECKING:
    from mexma_cli.stages.tune.labels import Labels

log = logging.getLogger(__name__)


def ask(labels: Labels, places: list[int]) -> None:
    """Ask about pairs, one after the other, and keep each answer; stops early at `q` or the input's end.

    Raises:
        KeyboardInterrupt: Ctrl-C; what was answered is kept.
    """
    if places:
        click.echo("Is the second the translation of the first? [y]es, [n]o, [s]kip, [q]uit", err=True)
    for number, (place, source, target) in enumerate(labels.sentences(places), 1):
        click.echo(f"\n{number} of {len(places)}\n  {visible(source)}\n  {visible(target)}", err=True)
        try:
            answer = click.prompt(
                "y/n/s/q", type=click.Choice("ynsq"), show_choices=False, prompt_suffix=" ", err=True
            )
        except click.Abort as stopped:  # Ctrl-D, or the end of a file; Click makes one of Ctrl-C, too
            if isinstance(stopped.__context__, KeyboardInterrupt):
                raise KeyboardInterrupt from None
            break
        if answer == "q":
            break
        labels.add(place, answer, source, target)
    counts = labels.counts
    log.info("%s: %s right, %s wrong", counted(counts["y"] + counts["n"], "label"), counts["y"], counts["n"])
