"""`mexma project`: one part of an embedding store's vectors, as a store."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mexma_cli.commands.inputs import check_outputs, command_line
from mexma_cli.commands.options import decomposer_option, no_verify_option, output_option, overwrite_option
from mexma_cli.commands.progress import follow, progress
from mexma_cli.stages.embed.inputs import open_store
from mexma_cli.text.amounts import counted

if TYPE_CHECKING:
    from mexma_cli.stages.train.decompose import VectorPart

log = logging.getLogger(__name__)


@click.command("project")
@click.argument("store", metavar="STORE", type=click.Path(path_type=Path))
@decomposer_option
@click.option(
    "--part",
    type=click.Choice(["meaning", "language"]),
    default="meaning",
    show_default=True,
    help="Part of the vectors.",
)
@output_option("NAME.emb", "Store to write.  [default: STORE with .meaning or .language before its ending]")
@overwrite_option
@no_verify_option
def command(store: Path, run: Path, part: VectorPart, output: Path | None, overwrite: bool) -> None:
    """Write the meaning part, or the language part, of the vectors of a store.

    RUN is the run of a decomposer, which `mexma train` made from a recipe such as systems/meat-oracle for the
    encoder of STORE. The new store has the same sentences, and is mined with stores of the same part and run
    only. Where the run has its encoder (RUN/encoder), `mexma embed --model RUN` makes the same vectors from
    text.

    \b
    Examples:
      mexma project fra.emb --with runs/meat-oracle
      mexma project eng.emb --with runs/meat-oracle
      mexma mine fra.meaning.emb eng.meaning.emb -o pairs.tsv
    """
    from mexma_cli.stages.project import project
    from mexma_cli.stages.train.decompose import TrainedDecomposer

    opened, decomposer = open_store(store), TrainedDecomposer.open(run)
    if output is None:
        plain = opened.path.resolve()
        output = opened.path.parent / f"{plain.name.removesuffix('.emb')}.{part}.emb"
    check_outputs([output], [store])
    with progress(unit="row", unit_scale=True) as bar:
        made = project(
            opened,
            decomposer,
            part,
            output,
            argv=command_line(),
            overwrite=overwrite,
            on_progress=follow(bar),
        )
    log.info("%s of %s numbers in %s", counted(made.rows, "row"), made.dim, made.path)
