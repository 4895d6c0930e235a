"""`mexma mine`: two texts in, their translations out."""

from __future__ import annotations

import logging
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mexma_cli.commands.formats import chosen_format, format_epilog, format_options
from mexma_cli.commands.inputs import (
    check_inputs,
    check_outputs,
    check_stdout,
    command_line,
    is_typed,
    print_estimate,
    progress_bar,
)
from mexma_cli.commands.options import (
    document_options,
    encoder_options,
    languages_option,
    no_verify_option,
    path_option,
    report_option,
    result_option,
    scoring_option,
    search_options,
    selection_option,
)
from mexma_cli.commands.tune_output import tell_copies, tell_estimated
from mexma_cli.formats.bitext import formats, outputs_of
from mexma_cli.settings.stages import EncoderChoice, MineSettings
from mexma_cli.stages.embed.inputs import is_one_text, is_store, language_of
from mexma_cli.text.amounts import counted

if TYPE_CHECKING:
    from mexma_cli.stages.mine.documents import DocumentFiles
    from mexma_cli.stages.mine.mine import Mined

log = logging.getLogger(__name__)


@click.command("mine", epilog=format_epilog())
@click.argument("source", type=click.Path(path_type=Path, allow_dash=True))
@click.argument("target", type=click.Path(path_type=Path, allow_dash=True), required=False)
@search_options(MineSettings)
@path_option(
    "--neighbours",
    help="Take neighbours that `mexma knn` has found, instead of searching.",
    metavar="NAME.knn",
    add=scoring_option,
)
@scoring_option(
    "--all-candidates", is_flag=True, help="Instead of --retrieval: every sentence with all its neighbours."
)
@path_option(
    "--thresholds",
    help="Take the threshold (--threshold auto) from this file, which `mexma tune --save-threshold` or "
    "`mexma run` wrote.",
    add=selection_option,
)
@document_options
@result_option
@format_options("line numbers, ranks, cosine and neighbourhood means")
@report_option
@languages_option
@encoder_options
@no_verify_option
def command(
    source: Path,
    target: Path | None,
    neighbours: Path | None,
    documents: DocumentFiles | None,
    output: Path | None,
    format: str | None,
    with_ids: bool,
    report: Path | None,
    settings: MineSettings,
    dry_run: bool,
    languages: tuple[str, str],
    encoder: EncoderChoice,
    thresholds: Path | None,
    all_candidates: bool,
) -> None:
    """Find translations in two texts, best first: score TAB source TAB target.

    SOURCE and TARGET are text files with one sentence a line (`-` is stdin), or embedding stores that `mexma
    embed` made. Equal lines of a file count as one; empty lines are left out. With SOURCE alone, it finds the
    paraphrases and near-copies within it.

    \b
    Examples:
      mexma mine fra.emb eng.emb --threshold 0.5 -o pairs.tsv
      mexma mine fra.emb eng.emb --precision 0.95 -o pairs.tsv
      mexma mine fra.emb eng.emb --margin ratio --threshold 1.06 -o by-margin.tsv
      mexma mine fra.txt.gz eng.txt.gz -o pairs.tsv.gz
      mexma mine fra.emb eng.emb --drop-copies --format moses -o corpus.gz --report run.json
      mexma mine fra.emb eng.emb --within fra.docs eng.docs --all-candidates --with-ids
      mexma mine fra.emb --threshold 1.3 -o paraphrases.tsv
    """
    paths = (source, target or source)
    alone = is_one_text(*paths)
    check_inputs((source,) if target is None else paths)
    if alone and documents is not None:
        raise click.UsageError("--within is for two texts: documents of one are paired with the other's.")
    if neighbours is not None:
        searching = settings.index != "exact" or settings.memory is not None or dry_run
        if searching or (is_typed("device") and all(map(is_store, paths))):
            raise click.UsageError(
                "--neighbours are found already: leave out --index, --memory, --device and --dry-run."
            )
        if str(neighbours).isdigit() and not neighbours.exists():
            raise click.UsageError(f"--neighbours takes what `mexma knn` made; how many: -k {neighbours}")
    from mexma_cli.stages.mine.files import MiningJob, mine_files
    from mexma_cli.text.writing import prepare_output

    format, with_ids = chosen_format(format, output, with_ids)
    if thresholds is not None and settings.threshold == "auto":
        settings = settings.but(threshold=None)  # `tune --save-threshold` has found it
    named = [value for value in (settings.threshold, settings.precision) if value is not None]
    if len(named) + (thresholds is not None) > 1:
        raise click.UsageError("--threshold, --precision and --thresholds: give one of them.")
    if all_candidates and is_typed("retrieval"):
        raise click.UsageError("--all-candidates is instead of --retrieval: give one of them.")
    if all_candidates:
        settings = settings.but(retrieval="all")
    if dry_run:
        from mexma_cli.stages.costs import mining_cost
        from mexma_cli.stages.mine.probable import encoder_of, judging_bytes, with_score

        within = documents is not None
        judged = with_score(settings, encoder_of(paths, encoder), alone, within)
        making = mining_cost(judged.finds or judged.score == "probability", within)
        print_estimate(paths, settings.k + alone, settings, encoder, partial(judging_bytes, judged), making)
        return
    languages = language_of(source, languages[0]), language_of(paths[1], languages[1])
    files = outputs_of(output, format, languages)
    check_stdout(files, {"--report": report})
    check_outputs([*files, report], [path for path in (*paths, *(documents or ())) if path])
    for path in (output, report):
        prepare_output(path)
    job = MiningJob(
        paths, languages, settings, files, format, with_ids, documents, neighbours, report, thresholds
    )
    started = time.monotonic()
    with ExitStack() as stack:
        bars = progress_bar(stack, "embedding", "line"), progress_bar(stack, "mining")
        mined, changed = mine_files(job, encoder, command_line(), *bars)
    _log_summary(mined, settings, time.monotonic() - started, bool(named) or thresholds is not None)
    if changed:
        log.info("%s in %s", formats()[format].changes, counted(changed, "sentence"))


def _log_summary(found: Mined, settings: MineSettings, seconds: float, chosen: bool) -> None:
    if found.estimated is not None:
        tell_estimated(settings.precision, found.estimated.best)
        tell_copies(found.estimated.copies)
    count = len(found.candidates)
    pairs = counted(count, "pair")
    log.info("%s in %.1f s; source: %s; target: %s", pairs, seconds, found.source, found.target)
    if found.score == "probability" and count and found.estimated is None:
        from mexma_cli.stages.mine.mine import translations_of

        told = translations_of(found, found.errors)
        advised = told is not None and told.droppable and not chosen
        advice = "; --threshold 0.5 or --precision 0.95 drops most of the others" if advised else ""
        log.info("%s%s", told, advice)
    if found.dropped:
        from mexma_cli.mining.retrieval import least_of

        default = f"below threshold {least_of(settings) or 0:g}, the default with {settings.retrieval}"
        names = {
            "threshold": "below the threshold" if chosen else default,
            "max-score": "above --max-score",
            "top": f"beyond the top {settings.top or 0:,}",
        }
        reasons = ", ".join(f"{number:,} {names.get(why, why)}" for why, number in found.dropped.items())
        log.info("dropped of %s: %s", counted(found.found, "candidate"), reasons)
    if chosen and not settings.finds and count and not found.dropped.get("threshold"):
        log.warning("the threshold drops none of %s", counted(found.found, "candidate"))
    for side, name in ((found.source, "source"), (found.target, "target")):
        if not side.kept:
            log.warning("the %s has no sentence that can be mined", name)
        elif side.kept < settings.k:
            few = "the %s has %s, so neighbourhoods there are of as many, not of %s"
            log.warning(few, name, counted(side.kept, "sentence"), settings.k)
    if not count:
        above = "" if settings.threshold is None else f" above {settings.threshold}"
        log.warning("no pair was found%s", above)
