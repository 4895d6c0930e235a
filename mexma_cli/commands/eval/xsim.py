"""Translations not found among all translations."""

from __future__ import annotations

from pathlib import Path

import click

from mexma_cli.commands.eval_options import (
    Result,
    Session,
    evaluation,
    languages_option,
    split_option,
    target_option,
)
from mexma_cli.commands.options import margin_option, neighbourhood_option


@evaluation(
    "xsim",
    "translations that margin-based search does not find, percent; lower is better",
    "FLORES-200, NTREX-128 or other line-aligned files",
    lower_is_better=True,
)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@languages_option
@target_option
@split_option
@margin_option
@neighbourhood_option
def command(
    session: Session, folder: Path, languages: str | None, target: str, split: str, margin: str, k: int
) -> Result:
    """The percentage of sentences whose translation is not what margin-based search finds.

    DIR is FLORES-200 (with devtest/<code>.devtest), NTREX-128, or any folder of line-aligned <code>.txt,
    compressed or not. Every language is searched in the target; the score is the mean over languages
    (Heffernan et al. 2022; as LASER's xsim.py). Where the target repeats a sentence, finding its other
    line is no error; errors by row are then shown too. Lines that are empty on either side take no part.

    FLORES-200 is published at github.com/facebookresearch/flores, NTREX-128 at
    github.com/MicrosoftTranslator/NTREX.

    \b
    Examples:
      mexma eval xsim flores200_dataset --langs 81 --model facebook/MEXMA
      mexma eval xsim NTREX --langs fra,deu,zho_Hant -o ntrex.json
    """
    from mexma_cli.evaluation.readers.aligned import read_texts
    from mexma_cli.evaluation.xsim import evaluate

    data = read_texts(folder, split, languages, target)
    with session.embedder(data.sentences) as embed:
        return evaluate(data, embed, margin, k)
