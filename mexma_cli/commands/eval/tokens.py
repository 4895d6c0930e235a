"""Whose tokens are the nearest of a token."""

from __future__ import annotations

from pathlib import Path

import click

from mexma_cli.commands.eval_options import Result, Session, evaluation, languages_option, split_option
from mexma_cli.commands.progress import progress


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
    """Find the nearest tokens of 750 English ones in all languages, and say where they are: percent.

    The queries are three random tokens of each of the first 250 English sentences. Their nearest tokens among
    those of all sentences, by cosine in the last layer and without <s> and </s>, are in the same sentence, in
    its translation, in another sentence of the same language, or elsewhere (MEXMA paper, section 5.5 and
    Table 9). top-1 counts the nearest token, top-5 the five nearest. Memory does not grow with the number of
    languages. Nothing is kept in --cache.

    DIR is FLORES-200 (github.com/facebookresearch/flores), NTREX-128 or any folder of line-aligned files
    with English among them, as for `mexma eval xsim`.

    \b
    Example:
      mexma eval tokens flores200_dataset --langs 81 --model facebook/MEXMA
    """
    from mexma_cli.evaluation.readers.aligned import read_texts
    from mexma_cli.evaluation.tokens import QUERIES, evaluate

    data = read_texts(folder, split, languages, QUERIES)
    with session.encoder() as encoder, progress(total=1 + len(data.texts), unit="language") as bar:
        return evaluate(encoder, data, bar.update)
