"""`mexma merge`: parts of a text, or several texts, embedded each for itself, as one store."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import click

from mexma_cli.commands.inputs import check_outputs, command_line, summary_of
from mexma_cli.commands.options import json_option, no_verify_option, output_option, overwrite_option
from mexma_cli.commands.progress import follow, progress
from mexma_cli.stages.embed.inputs import open_store
from mexma_cli.text.amounts import counted

log = logging.getLogger(__name__)


@click.command("merge")
@click.argument("stores", metavar="STORE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@output_option("NAME.emb", "Store to write.", required=True)
@overwrite_option
@json_option
@no_verify_option
def command(stores: tuple[Path, ...], output: Path, overwrite: bool, as_json: bool) -> None:
    """Join embedding stores into one.

    Parts that `mexma embed --shard I/N` made are put into the order of their text, and all N must be given.
    Other stores follow one another as given; they need the same encoder, language and settings. On one disk
    nothing is copied (hard links), and the parts may be removed afterwards.

    \b
    Examples:
      mexma merge corpus.*-of-00100.emb -o corpus.emb
      mexma merge news.emb web.emb -o all.emb
    """
    from mexma_cli.stages.merge import merge_stores

    check_outputs([output], stores)
    opened = [open_store(path) for path in stores]
    with progress(unit="row", unit_scale=True) as bar:
        merged = merge_stores(
            opened, output, argv=command_line(), overwrite=overwrite, on_progress=follow(bar)
        )
    log.info(
        "%s of %s numbers in %s, from %s",
        counted(merged.rows, "row"),
        merged.dim,
        merged.path,
        f"{len(opened)} stores" if len(opened) > 1 else "one store",
    )
    if as_json:
        click.echo(json.dumps(summary_of(merged), ensure_ascii=False))
