"""`mexma augment`: hard negatives for xsim++."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import click

from mexma_cli.commands.options import output_option
from mexma_cli.reporting.tables import aligned
from mexma_cli.text.amounts import counted

log = logging.getLogger(__name__)


@click.command("augment")
@click.argument("text", metavar="ENGLISH", type=click.Path(path_type=Path))
@output_option(
    "DIR", "Folder for both files; existing ones of these names are replaced.", required=True, file_okay=False
)
@click.option("--seed", default=0, show_default=True, help="Another seed makes other hard negatives.")
@click.option("--json", "as_json", is_flag=True, help="Print the counts as JSON.")
def command(text: Path, output: Path, seed: int, as_json: bool) -> None:
    """Make hard negatives of the sentences of ENGLISH, one a line, for `mexma eval xsimpp`.

    A hard negative is a sentence with one thing changed (Chen et al. 2023): another number, another name of
    the text in the place of one, or another causality: negation put in or taken out, a word or a connective
    turned into its opposite. They are made by rules, at most five of a kind for a sentence, and always the
    same for a text and a seed; rules are not always grammatical. For FLORES-200 use the published files.

    Written are NAME_augmented.EXT and NAME_errtype.EXT.json for ENGLISH = NAME.EXT, in the published form.

    \b
    Examples:
      mexma augment ntrex/eng_Latn.txt -o ntrex
      mexma eval xsimpp ntrex --langs fra,deu
    """
    from mexma_cli.errors import MexmaError
    from mexma_cli.evaluation.augment import KINDS, augment
    from mexma_cli.evaluation.readers.augmented import augmented_names, augmented_texts
    from mexma_cli.evaluation.readers.common import read_sentences
    from mexma_cli.text.writing import only_process, prepare_output, write_chunks

    lines = read_sentences(text)
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
    click.echo("\n".join(aligned([["type", "hard negatives", "of sentences"], *rows], names=1)))
