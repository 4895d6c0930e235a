"""`mexma augment`: hard negatives for xsim++."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import click

from mexma_cli.commands.options import output_option
from mexma_cli.errors import MexmaError
from mexma_cli.reporting.tables import aligned_columns
from mexma_cli.text.amounts import counted

log = logging.getLogger(__name__)


@click.command("augment")
@click.argument("text", metavar="ENGLISH", type=click.Path(path_type=Path))
@output_option(
    "DIR", "Folder of both files, which are replaced if they exist.", required=True, file_okay=False
)
@click.option("--seed", default=0, show_default=True, metavar="N", help="Seed of all choices.")
@click.option("--json", "as_json", is_flag=True, help="Print the counts as one JSON object.")
def command(text: Path, output: Path, seed: int, as_json: bool) -> None:
    """Make hard negatives of English sentences, for `mexma eval xsimpp`.

    A hard negative is a sentence with one change (Chen et al. 2023): another number, another name of the
    text, or another causality (negation added or removed, a word or connective replaced by its opposite).
    Rules make at most five of a kind for a sentence, not always grammatical ones. For FLORES-200 use the
    published files.

    ENGLISH = NAME.EXT has one sentence a line. The files NAME_augmented.EXT and
    NAME_errtype.EXT.json have the published layout.

    \b
    Examples:
      mexma augment ntrex/eng_Latn.txt -o ntrex
      mexma eval xsimpp ntrex --langs fra,deu
    """
    from mexma_cli.evaluation.augment import KINDS, augment, augmented_names, augmented_texts
    from mexma_cli.evaluation.reading import read_all_lines
    from mexma_cli.text.writing import only_process, prepare_output, write_chunks

    lines = read_all_lines(text)
    found = augment(lines, seed)
    if not found:
        raise MexmaError(f"{text}: no sentence has a number, a name or a word that could be changed")
    files = [output / name for name in augmented_names(text)]
    for path in files:
        prepare_output(path)
    with only_process(files):
        write_chunks(files, [(augmented_texts(found), 0)])
    counts = {
        kind: (sum(one.kind == kind for one in found), len({one.source for one in found if one.kind == kind}))
        for kind in KINDS
    }
    log.info(
        "%s of %s in %s; types in %s",
        counted(len(found), "hard negative"),
        counted(len(lines), "line"),
        *files,
    )
    if as_json:
        click.echo(json.dumps({kind: {"made": made, "of": of} for kind, (made, of) in counts.items()}))
        return
    rows = [[kind, f"{made:,}", f"{of:,}"] for kind, (made, of) in counts.items()]
    click.echo("\n".join(aligned_columns([["type", "hard negatives", "of sentences"], *rows], names=1)))
