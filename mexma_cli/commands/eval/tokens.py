"""Nearest tokens: from which sentences they are."""

from __future__ import annotations

from pathlib import Path

import click

from mexma_cli.commands.eval_options import (
    Result,
    Session,
    evaluation,
    languages_option,
    picture_option,
    split_option,
)
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
@picture_option("--picture", "the first tokens and those nearest to them (.png, .svg, .pdf; extra `plot`).")
def command(
    session: Session, folder: Path, languages: str | None, split: str, picture: Path | None
) -> Result:
    """Measure where the nearest tokens of English tokens are, in percent (MEXMA paper, Table 9).

    The queries are three random tokens of each of the first 250 English sentences. The nearest tokens of all
    languages, by cosine in the last layer and without <s> and </s>, are in the same sentence, in its
    translation, in another sentence of the same language (`same token`: and are the query's token), or
    elsewhere (section 5.5). top-1 counts the nearest token, top-5 the five nearest.

    DIR is as for `mexma eval xsim`, with English in it. The picture is like Figures 2 to 6. --cache is not
    used.

    \b
    Example:
      mexma eval tokens flores200_dataset --langs 81 --model facebook/MEXMA --picture nearest.svg
    """
    from mexma_cli.evaluation.aligned import read_texts
    from mexma_cli.evaluation.tokens import QUERIES, draw_nearest, find_nearest, tokens_result
    from mexma_cli.reporting.plot import check_plottable

    check_plottable(picture)
    data = read_texts(folder, split, languages, QUERIES)
    with session.encoder() as encoder:
        with progress(total=1 + len(data.texts), unit="language") as bar:
            nearest = find_nearest(encoder, data, bar.update)
        result = tokens_result(encoder, data, nearest)
        if picture is not None:
            draw_nearest(picture, encoder, data, nearest)
    return result
