"""`mexma review`: pairs on a web page, to be looked at and labelled."""

from __future__ import annotations

import logging
from pathlib import Path

import click

from mexma_cli.commands.inputs import check_bitext, check_inputs, check_outputs
from mexma_cli.commands.options import output_option, written_languages_option
from mexma_cli.files import is_special
from mexma_cli.text.amounts import counted

log = logging.getLogger(__name__)
_MOST = 5_000


@click.command("review")
@click.argument("bitext", nargs=-1, required=True, type=click.Path(path_type=Path, allow_dash=True))
@output_option("FILE.html", "The page.", required=True, allow_dash=True)
@click.option(
    "--count",
    type=click.IntRange(1, _MOST),
    default=500,
    show_default=True,
    help="Pairs on the page, drawn from all.",
)
@click.option(
    "--around",
    type=float,
    metavar="SCORE",
    help="Show the pairs whose score is nearest to this one, instead.",
)
@written_languages_option
def command(
    bitext: tuple[Path, ...], output: Path, count: int, around: float | None, languages: tuple[str, str]
) -> None:
    """Write pairs of BITEXT to a web page on which a person looks at them and labels them.

    BITEXT is a file of pairs in any format, such as those of `mexma mine` and `score`, or two line-aligned
    files; `-` is stdin. Pairs with an empty side are left out. The page is one file that needs no network.
    Numbers, names and lengths that differ are marked. The keys y, n and s label a pair as right, wrong or
    unsure; the page keeps the labels, and saves them as the file that `mexma tune --labels`, `classifier
    train` and `filter --exclude` read.

    \b
    Examples:
      mexma review pairs.tsv -o review.html
      mexma review pairs.tsv --around 0.5 --count 100 -o threshold.html
    """
    check_bitext(bitext)
    check_inputs(bitext)
    if str(output) != "-" and not is_special(output) and output.suffix.lower() not in (".html", ".htm"):
        raise click.UsageError(f"{output}: the page is HTML, so name it .html.")
    check_outputs([output], bitext)
    from mexma_cli.stages.review import review
    from mexma_cli.text.writing import prepare_output

    prepare_output(output)
    shown, total = review(bitext, output, languages, count, around)
    log.info("%s of %s in %s", counted(shown, "pair"), f"{total:,}", output)
