"""`mexma score`: a score for each line of an existing bitext."""

from __future__ import annotations

import logging
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mexma_cli.commands.inputs import check_bitext, check_inputs, progress_bar, row_outputs
from mexma_cli.commands.options import (
    encoder_options,
    json_lines_option,
    no_verify_option,
    options_of,
    path_option,
    result_option,
    scoring_option,
    written_languages_option,
)
from mexma_cli.mining.margin import MARGINS
from mexma_cli.settings.stages import EncoderChoice, JudgingSettings
from mexma_cli.stages.embed.inputs import is_store, language_of, load_encoder
from mexma_cli.text.amounts import counted, shortest

if TYPE_CHECKING:
    from mexma_cli.stages.score import Scored

log = logging.getLogger(__name__)


@click.command("score")
@click.argument("bitext", nargs=-1, required=True, type=click.Path(path_type=Path, allow_dash=True))
@options_of(JudgingSettings)
@path_option(
    "--background",
    help="Texts or stores that the neighbourhoods come from.  [default: the two sides of BITEXT]",
    metavar="SOURCE TARGET",
    add=scoring_option,
    nargs=2,
)
@scoring_option(
    "--probability",
    is_flag=True,
    help="Add a column: the probability that the pair is a translation. Made for the vectors of mini.",
)
@scoring_option(
    "--explain",
    is_flag=True,
    help="Add the probability, and why a pair may be no translation: copies, numbers, names, lengths, "
    "vectors.",
)
@click.option("--scores-only", is_flag=True, help="Print the score alone, one for each line.")
@json_lines_option
@result_option
@written_languages_option
@encoder_options
@no_verify_option
def command(
    bitext: tuple[Path, ...],
    settings: JudgingSettings,
    background: tuple[Path, Path] | None,
    probability: bool,
    explain: bool,
    scores_only: bool,
    as_json: bool,
    output: Path | None,
    languages: tuple[str, str],
    encoder: EncoderChoice,
) -> None:
    """Score every pair of BITEXT, in its order: score TAB source TAB target.

    BITEXT is two line-aligned files (texts or embedding stores), or one file of source TAB target, or the TSV
    or JSONL of `mexma mine`, whose old scores and ids are left out. `-` is stdin. A pair with an empty side
    has the score nan.

    A score compares a pair with its neighbourhoods. A small bitext has poor ones: name larger texts of both
    languages with --background. --margin absolute needs none; with --scores-only it answers each line at
    once.

    \b
    Examples:
      mexma score corpus.fr corpus.en --model facebook/MEXMA -o scored.tsv.gz
      mexma score corpus.fr corpus.en --model mini --probability -o scored.tsv
      mexma score pairs.tsv --model mini --explain -o explained.tsv
      mexma score --scores-only --background fra.emb eng.emb pairs.tsv > scores.txt
      cut -f 2,3 mined.tsv | mexma score -
    """
    check_bitext(bitext)
    if background and not MARGINS[settings.margin].uses_neighbourhoods:
        raise click.UsageError(f"--margin {settings.margin} has no neighbourhoods: leave out --background.")
    probability = probability or explain or settings.classifier is not None
    if probability and (background or scores_only):
        flag, other = (
            "--explain" if explain else "--probability",
            "--background" if background else "--scores-only",
        )
        raise click.UsageError(f"{flag} does not go with {other}.")
    check_inputs([*bitext, *(background or ())])
    if len(bitext) == 1 and is_store(bitext[0]):
        raise click.UsageError(f"{bitext[0]} is one side of a bitext: name the store of the other side too.")
    from mexma_cli.classifier.features import load_features
    from mexma_cli.stages.score import open_bitext, score, scored_lines
    from mexma_cli.text.writing import only_process, write_chunks

    outputs, format = row_outputs(output, (*bitext, *(background or ())), as_json)
    if format != "tsv" and scores_only:
        raise click.UsageError(f"--scores-only prints plain numbers: leave it out, or {format}.")
    if len(bitext) == 2:
        languages = language_of(bitext[0], languages[0]), language_of(bitext[1], languages[1])
    if scores_only and not outputs and len(bitext) == 1 and not MARGINS[settings.margin].uses_neighbourhoods:
        _answer(bitext[0], encoder, settings.margin, languages)
        return
    own = load_features(settings.plugin) if settings.plugin is not None else {}
    if own and format == "tsv" and settings.classifier is None:
        raise click.UsageError("--plugin adds values by name: -o FILE.csv or FILE.jsonl, or --json.")
    started = time.monotonic()
    with only_process(outputs), ExitStack() as stack:
        embedding = progress_bar(stack, "embedding", "line")
        stores = open_bitext(
            stack, bitext, background or (), encoder, embedding, languages, each_line=scores_only
        )
        scored = score(
            stores[0],
            stores[1],
            settings,
            background=(stores[2], stores[3]) if background else None,
            probability=probability,
            on_progress=progress_bar(stack, "searching"),
        )
        replaced = write_chunks(
            outputs, scored_lines(stores[0], stores[1], scored, scores_only, format, explain, own)
        )
    _report(scored, settings.k, time.monotonic() - started)
    if replaced:
        log.info("tabs or line breaks became spaces in %s", counted(replaced, "sentence"))


def _answer(path: Path, encoder: EncoderChoice, margin: str, languages: tuple[str, str]) -> None:
    from mexma_cli.stages.score import streamed_scores

    for scores in streamed_scores(path, load_encoder(encoder), margin, languages):
        click.echo("".join(f"{score}\n" for score in shortest(scores)), nl=False)  # which flushes


def _report(scored: Scored, k: int, seconds: float) -> None:
    log.info("%s scored in %.1f s", counted(len(scored.scores), "line"), seconds)
    for count, reason in (
        (scored.empty, "with an empty side"),
        (scored.unusable, "with a vector that is zero or not a number"),
    ):
        if count:
            log.warning("%s %s without a score: nan", counted(count, "line"), reason)
    if scored.fewest is not None and scored.fewest < k:
        log.warning(
            "neighbourhoods are of %s, since there are no %s to choose from",
            counted(scored.fewest, "sentence"),
            k,
        )
