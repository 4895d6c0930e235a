"""Make a code-switched retrieval set."""

from __future__ import annotations

from pathlib import Path

import click

from mexma_cli.commands.inputs import check_inputs, check_outputs
from mexma_cli.commands.options import lang_option, options_of, output_option, path_option
from mexma_cli.files import check_outside_stores
from mexma_cli.languages import resolve
from mexma_cli.settings.stages import Switching


@click.command("codeswitch")
@click.argument("source", metavar="SOURCE", type=click.Path(path_type=Path))
@click.argument("target", metavar="ENGLISH", type=click.Path(path_type=Path))
@path_option("--dictionary", help="Dictionary into English, in MUSE's format.", required=True)
@lang_option("Language of SOURCE.", required=True)
@output_option(
    "DIR", "Folder of the files, which are replaced if they exist.", required=True, file_okay=False
)
@options_of(Switching)
def command(
    source: Path, target: Path, dictionary: Path, lang: str, output: Path, settings: Switching
) -> None:
    """Make a code-switched retrieval set from a bitext (ORACLE paper, appendix C.1).

    Line n of SOURCE is the translation of line n of ENGLISH. Words of SOURCE are replaced by English
    translations from the dictionary. DIR gets files in Tatoeba's layout, for `mexma eval leakage` and `mexma
    eval tatoeba`, and codeswitch.LANG.json, which says how they were made.

    MUSE's dictionaries are published at github.com/facebookresearch/MUSE, under a non-commercial licence.

    \b
    Examples:
      mexma eval codeswitch tatoeba.deu-eng.deu tatoeba.deu-eng.eng --lang deu --dictionary de-en.txt \\
        -o codeswitched
      mexma eval leakage codeswitched --with runs/systems/meat-oracle
    """
    from mexma_cli.evaluation.codeswitch import output_paths, write_code_switched

    code = resolve(lang).partition("_")[0]
    if code == "eng":
        raise click.UsageError("--lang is the language of SOURCE, which is not English.")
    check_inputs((source, target, dictionary))
    check_outputs(output_paths(output, code), (source, target, dictionary))
    check_outside_stores(output / code)
    write_code_switched((source, target), dictionary, output, code, settings)
