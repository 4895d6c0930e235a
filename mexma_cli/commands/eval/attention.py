"""Entropy of the first token's attention."""

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
    "Attention",
    "entropy of the first token's attention, in nats",
    "line-aligned files, as xsim",
    refuses={"pooling": "for sentence vectors; the first token's attention is measured here."},
)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@languages_option
@split_option
@picture_option("--picture", "the attention of some sentences (.png, .svg, .pdf; extra `plot`).")
@click.option(
    "--sentence",
    "sentences",
    multiple=True,
    metavar="TEXT",
    help="Sentence for the picture; may be repeated.  [default: the first one of two languages]",
)
def command(
    session: Session,
    folder: Path,
    languages: str | None,
    split: str,
    picture: Path | None,
    sentences: tuple[str, ...],
) -> Result:
    """Measure the entropy, in nats, of the first token's attention in the last layer.

    Entropy is low where few tokens make up the sentence vector; with equal weights it is the logarithm of the
    sentence's length (MEXMA paper, section 5.6). It is the mean over sentences, with all tokens, and without
    <s> and </s> (the other weights scaled to sum to 1). `entropy` is the mean over heads, `of mean` the
    entropy of the mean distribution of all heads; the paper does not say which one it reports.

    DIR is as for `mexma eval xsim`. The picture is like the paper's Figures 7 to 11: bars over the words, and
    below them all heads and all tokens. --cache is not used.

    \b
    Examples:
      mexma eval attention flores200_dataset --langs eng_Latn,por_Latn --model facebook/MEXMA
      mexma eval attention NTREX --langs eng --picture nineteen.png \\
        --sentence "Nineteen people died." --sentence "Twenty-nine people died."
    """
    from mexma_cli.evaluation.aligned import aligned_folder
    from mexma_cli.evaluation.attention import draw_attention
    from mexma_cli.evaluation.reading import read_all_lines
    from mexma_cli.reporting.plot import check_plottable

    if sentences and picture is None:
        raise click.UsageError("--sentence is for a picture: name it with --picture.")
    check_plottable(picture)
    source = aligned_folder(folder, split)
    texts = {code: read_all_lines(path) for code, path in source.choose(languages).items()}
    with session.encoder() as encoder:
        from mexma_cli.evaluation.attention import evaluate, rows_to_draw

        if picture is not None:  # first: it takes a moment, the others up to hours
            title = f"{encoder.name}: attention of the first token, last layer"
            draw_attention(picture, rows_to_draw(encoder, sentences, texts), title)
        with progress(total=len(texts), unit="language") as bar:
            return evaluate(encoder, source, languages, texts, bar.update)
