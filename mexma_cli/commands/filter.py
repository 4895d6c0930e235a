"""`mexma filter`: the pairs of a bitext that keep all rules, and why the others do not."""

from __future__ import annotations

import logging
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mexma_cli.commands.formats import format_epilog, format_option, rule_epilog
from mexma_cli.commands.inputs import check_bitext, check_inputs, check_outputs, check_stdout, command_line
from mexma_cli.commands.options import (
    options_of,
    path_option,
    result_option,
    stdout_option,
    workers_option,
    written_languages_option,
)
from mexma_cli.commands.progress import progress
from mexma_cli.formats.bitext import format_of, formats, outputs_of
from mexma_cli.formats.sides import as_codes
from mexma_cli.settings.stages import RuleSettings
from mexma_cli.text.amounts import counted
from mexma_cli.text.rules import RULES, SELECTABLE

if TYPE_CHECKING:
    from mexma_cli.stages.filter import Filtered

log = logging.getLogger(__name__)


@click.command("filter", epilog=f"{rule_epilog(SELECTABLE)}\n\n{format_epilog()}")
@click.argument("bitext", nargs=-1, required=True, type=click.Path(path_type=Path, allow_dash=True))
@options_of(RuleSettings)
@path_option(
    "--exclude",
    help="Drop pairs with a sentence of this file, such as a test set: text, or pairs in any format that "
    "is read; of a file of labels, the pairs that are wrong.",
    multiple=True,
)
@written_languages_option
@result_option
@format_option(otherwise="tsv; on stdout that of the input")
@stdout_option(
    "--rejects", help="Write what is dropped, as TSV or CSV: reason, number of the pair, the pair."
)
@stdout_option("--report", help="Write a JSON report: counts by reason, rules and limits.")
@workers_option("Number of processes.")
def command(
    bitext: tuple[Path, ...],
    settings: RuleSettings,
    exclude: tuple[Path, ...],
    languages: tuple[str, str],
    output: Path | None,
    format: str | None,
    rejects: Path | None,
    report: Path | None,
    workers: int,
) -> None:
    """Drop the pairs of a bitext that break a rule, and count them by rule.

    BITEXT is one file of pairs (`-` is stdin): what `mexma mine`, `align` and `score` write, or source TAB
    target. Or it is two line-aligned files. Pairs keep their order, scores and ids; units of TMX are numbered
    anew.

    The rules script and language need --source-lang and --target-lang. With the rule duplicate, pairs wait on
    disk until all are read; --off duplicate writes them at once.

    \b
    Examples:
      mexma filter pairs.tsv --source-lang fra --target-lang eng -o clean.tsv --rejects dropped.tsv
      mexma mine fra.emb eng.emb | mexma filter - --on low-score=0.7 --off numbers > clean.tsv
      mexma filter corpus.fr corpus.en --off all --on ratio=2 --on duplicate-source -o pairs.tsv
    """
    check_bitext(bitext)
    check_inputs(bitext)
    from mexma_cli.stages.filter import FilterJob, filter_files
    from mexma_cli.text.writing import prepare_output

    to_stdout = output is None or str(output) == "-"
    if to_stdout and format and formats()[format].two_files:
        raise click.UsageError(f"--format {format} writes two files: name them with --output.")
    if rejects is not None:
        format_of(rejects, ("tsv", "csv"))
    codes = as_codes(languages)
    named = format or format_of(None if to_stdout else output)
    outputs = outputs_of(output, named, codes) if formats()[named].two_files else []
    outputs = outputs or [path for path in [output] if path and not to_stdout]
    check_stdout(outputs, {"--rejects": rejects, "--report": report})
    check_outputs([*outputs, rejects, report], (*bitext, *exclude))
    for path in (output, rejects, report):
        prepare_output(path)
    job = FilterJob(bitext, languages, settings, exclude, output, format, rejects, report, workers)
    limits = job.limits
    with ExitStack() as stack:
        bar = stack.enter_context(progress(desc="filtering", unit="pair", unit_scale=True))
        found, changed = filter_files(job, command_line(), lambda done: bar.update(done - bar.n))
    _log_summary(found, limits)
    if changed:
        log.info("%s in %s", formats()[named].changes, counted(changed, "sentence"))


def _log_summary(found: Filtered, limits: dict[str, float]) -> None:
    from mexma_cli.reporting.tables import aligned_with_notes

    share = f"{100 * found.kept / found.read:.1f} %"
    log.info("%s of %s kept (%s)", f"{found.kept:,}", counted(found.read, "pair"), share)
    if not found.kept:
        log.warning("no pair was kept, so the output is empty")
    rows = [
        [reason, f"{count:,}", RULES[reason].says(limits[reason])] for reason, count in found.dropped.items()
    ]
    for reason, count in found.left_out.items():
        log.info("left out: %s (%s)", reason, f"{count:,}")
    for line in aligned_with_notes(rows, 1):
        log.info("%s", line)
