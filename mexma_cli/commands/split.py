"""`mexma split`: documents into sentences, with where each was, and a table of what was dropped."""

from __future__ import annotations

import logging
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mexma_cli.commands.completion import FILE
from mexma_cli.commands.formats import rule_epilog
from mexma_cli.commands.inputs import check_outputs, command_line, progress_bar
from mexma_cli.commands.options import lang_option, options_of, output_option, workers_option, written_option
from mexma_cli.reporting.tables import aligned_with_notes
from mexma_cli.settings.stages import SplitSettings
from mexma_cli.text.amounts import such_as
from mexma_cli.text.rules import OF_SENTENCES, RULES

if TYPE_CHECKING:
    from mexma_cli.stages.split.split import SplitReport

log = logging.getLogger(__name__)


@click.command("split", epilog=rule_epilog(OF_SENTENCES))
@click.argument("inputs", nargs=-1, required=True, type=FILE)
@lang_option("Language of the documents, such as fra_Latn, fra or fr; und: not stated.", required=True)
@output_option(None, "File of the sentences, compressed if named .gz, .bz2, .xz or .zst.", required=True)
@options_of(SplitSettings)
@written_option(
    "--rejects",
    help="Write what is dropped, as TSV or CSV: reason, document id, start, end, text.",
    metavar=None,
)
@workers_option("Number of processes.")
def command(
    inputs: tuple[str, ...],
    output: Path,
    lang: str,
    settings: SplitSettings,
    rejects: Path | None,
    workers: int,
) -> None:
    """Split documents into clean sentences of one language, one a line.

    INPUTS are files, folders, globs in quotes or `-`, of text, JSONL, TMX, HTML or WARC, plain or compressed.
    Mojibake is repaired, and sentences that break a rule are dropped and counted. Beside fra.txt.zst come
    fra.report.json, with the counts, and fra.docs.zst, whose line n says where sentence n was: document id,
    start and end in characters. `mexma mine --within` and `mexma align --docs` read it. The same command
    continues a killed run.

    \b
    Examples:
      mexma split crawl/*.txt.gz --lang fra -o fra.txt.zst
      mexma split dump.jsonl --lang swh -o swh.txt.zst --rejects swh.rejects.zst
      mexma split pages/ --document file --lang fr --off boilerplate --on long=400 -o fra.txt
    """
    from mexma_cli.stages.split.inputs import chosen_inputs
    from mexma_cli.stages.split.split import SplitOutputs, split

    found, how = chosen_inputs(inputs, lang, settings, rejects is not None)
    limits = how.limits
    outputs = SplitOutputs(output, rejects)
    check_outputs([*outputs.files, outputs.report], found.files)
    with ExitStack() as stack:
        bar = progress_bar(stack, "splitting", "B")
        report = split(found, how, outputs, workers, tuple(command_line()), bar)
    for line in table(report, limits).splitlines():
        log.info("%s", line)
    if not report.kept:
        log.warning("no sentence was kept, so %s is empty", output)
    for warning in report.warnings(lang):
        log.warning("%s", warning)


def table(report: SplitReport, limits: dict[str, float]) -> str:
    """The report as aligned columns: what was read and kept, and a line for each reason."""
    from mexma_cli.stages.split.chunk import DOCUMENT_REASONS

    rows = [["passed over", f"{count:,}", reason] for reason, count in report.passed_over.items()]
    rows.append(["documents", f"{report.documents:,}", ""])
    rows += [[f"  repaired: {name}", f"{count:,}", ""] for name, count in report.repaired.items()]
    if report.words:
        rows.append(["  words put together", f"{report.words:,}", "a hyphen divided them at a line end"])
    rows += [
        [f"  {name}", f"{count:,}", f"{DOCUMENT_REASONS[name]}{such_as(report.named.get(name, []))}"]
        for name, count in report.documents_dropped.items()
    ]
    rows.append(["sentences", f"{report.sentences:,}", ""])
    rows += [
        [f"  {name}", f"{count:,}", RULES[name].says(limits.get(name))]
        for name, count in report.dropped.items()
    ]
    rows.append(["kept", f"{report.kept:,}", ""])
    return "\n".join(aligned_with_notes(rows, 1))
