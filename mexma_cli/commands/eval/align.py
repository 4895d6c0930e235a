"""Sentence alignment: strict and lax precision, recall and F1."""

from __future__ import annotations

import json
from pathlib import Path

import click

from mexma_cli.commands.options import json_option

_FILE = click.Path(path_type=Path)


@click.command("align")
@click.argument("gold", type=_FILE)
@click.argument("out", type=_FILE)
@json_option
def command(gold: Path, out: Path, as_json: bool) -> None:
    """Measure alignments against gold ones: precision, recall and F1 in percent, as Vecalign's score.py.

    GOLD and OUT have a line an alignment, `[source ids]:[target ids]:score` with ids from 0, as `mexma align
    --format vecalign` writes it; scores are not read. An alignment is right strictly if it is in GOLD, and
    laxly if it shares a sentence on both sides with one of GOLD. Documents that are named in the files are
    compared one by one, and their counts are summed.

    \b
    Examples:
      mexma eval align gold.align out.align
    """
    from mexma_cli.evaluation.align import KINDS, MEASURES, percent, read_both

    scores = percent(*read_both(gold, out))
    if as_json:
        click.echo(json.dumps(scores))
        return
    click.echo("".join([" " * 9, *(f"{kind:>8}" for kind in KINDS)]))
    for measure in MEASURES:
        numbers = (scores[f"{kind} {measure}"] for kind in KINDS)
        click.echo("".join([f"{measure:9}", *(f"{number:8.2f}" for number in numbers)]))
