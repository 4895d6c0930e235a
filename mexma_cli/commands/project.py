"""`mexma project`: one part of an embedding store's vectors, as a store."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mexma_cli.commands.inputs import command_line, refuse_inputs
from mexma_cli.commands.options import decomposer_option, no_verify_option, output_option, overwrite_option
from mexma_cli.commands.progress import follow, progress
from mexma_cli.stages.embed.inputs import open_store
from mexma_cli.text.amounts import counted

if TYPE_CHECKING:
    from mexma_cli.stages.train.decompose import Part

log = logging.getLogger(__name__)


@click.command("project")
@click.argument("store", metavar="STORE", type=click.Path(path_type=Path))
@decomposer_option
@click.option(
    "--part",
    type=click.Choice(["meaning", "language"]),
    default="meaning",
    show_default=True,
    help="What to take of the vectors.",
)
@output_option(
    "NAME.emb", "The store to make.  [default: STORE with .meaning or .language before its ending]"
)
@overwrite_option
@no_verify_option
def command(store: Path, run: Path, part: Part, output: Path | None, overwrite: bool) -> None:
    """Take the meaning, or the language, of every vector of an embedding store.

    RUN is what `mexma train` made of a recipe such as systems/meat-oracle. The vectors must be of the encoder
    that it was trained on. The new store has the same sentences. It can be compared with stores of the same
    part and run only: meanings are mined with meanings, not with the encoder's own vectors. Where the run has
    the encoder too (RUN/encoder), `mexma embed --model RUN` makes the same vectors of a text in one go.

    \b
    Examples:
      mexma project fra.emb --with runs/meat-oracle
      mexma project eng.emb --with runs/meat-oracle
      mexma mine fra.meaning.emb eng.meaning.emb -o pairs.tsv
    """
    from mexma_cli.stages.project.project import project
    from mexma_cli.stages.train.decompose import TrainedDecomposer

    opened, decomposer = open_store(store), TrainedDecomposer.open(run)
    if output is None:
        plain = opened.path.resolve()
        output = opened.path.parent / f"{plain.name.removesuffix('.emb')}.{part}.emb"
    refuse_inputs([output], [store])
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
