"""Whose tokens are the nearest of a token."""

from __future__ import annotations

from pathlib import Path

import click

from mexma_cli.commands.eval_options import (
    Result,
    Session,
    evaluation,
    languages_option,
    report_truncated,
    split_option,
)
from mexma_cli.commands.progress import progress
from mexma_cli.stages.embed.inputs import load_encoder


@evaluation(
    "Nearest tokens",
    "whose tokens are nearest to a token, percent",
    "line-aligned files, as xsim",
    refuses={"pooling": "for sentence vectors; the tokens are measured here."},
)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@languages_option
@split_option
def command(session: Session, folder: Path, languages: str | None, split: str) -> Result:
    """Look for the tokens nearest to 750 English ones in all languages, and say whose they are. Percent.

    Three random tokens of each of the first 250 English sentences; their nearest among all tokens of all
    sentences are in the same sentence, in its translation, in another sentence of the same language, or
    elsewhere (MEXMA, section 5.5 and Table 9). Vectors of the last layer, by cosine, without <s> and </s>.
    top-1 counts the nearest token, top-5 the five nearest. Languages go by one after the other: memory
    does not grow with them. --cache has no vectors to keep here.

    DIR is FLORES-200 (github.com/facebookresearch/flores), NTREX-128 or any folder of line-aligned files
    with English among them, as for `mexma eval xsim`.

    \b
    Example:
      mexma eval tokens flores200_dataset --langs 81 --model facebook/MEXMA
    """
    from mexma_cli.evaluation.readers.aligned import read_texts
    from mexma_cli.evaluation.tokens import QUERIES, evaluate

    data = read_texts(folder, split, languages, QUERIES)
    encoder = load_encoder(session.choice)
    with progress(total=1 + len(data.texts), unit="language") as bar:
        result = evaluate(encoder, data, bar.update)
    report_truncated(encoder)
    return result
