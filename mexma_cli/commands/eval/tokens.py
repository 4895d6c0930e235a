"""Nearest tokens: from which sentences they are."""

from __future__ import annotations

from pathlib import Path

import click

from mexma_cli.commands.eval_options import Result, Session, evaluation, languages_option, split_option
from mexma_cli.commands.progress import progress


@evaluation(
    "Nearest tokens",
    "where the nearest tokens of English tokens are, percent",
    "line-aligned files, as xsim",
    refuses={"pooling": "for sentence vectors; the tokens are measured here."},
)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@languages_option
@split_option
def command(session: Session, folder: Path, languages: str | None, split: str) -> Result:
    """Measure where the nearest tokens of English tokens are, in percent (MEXMA paper, Table 9).

    The queries are three random tokens of each of the first 250 English sentences. The nearest tokens of all
    languages, by cosine in the last layer and without <s> and </s>, are in the same sentence, in its
    translation, in another sentence of the same language, or elsewhere (section 5.5). top-1 counts the
    nearest token, top-5 the five nearest.

    DIR is as for `mexma eval xsim`, with English in it. --cache is not used.

    \b
    Example:
      mexma eval tokens flores200_dataset --langs 81 --model facebook/MEXMA
    """
    from mexma_cli.evaluation.aligned import read_texts
    from mexma_cli.evaluation.tokens import QUERIES, evaluate

    data = read_texts(folder, split, languages, QUERIES)
    with session.encoder() as encoder, progress(total=1 + len(data.texts), unit="language") as bar:
        return evaluate(encoder, data, bar.update)
