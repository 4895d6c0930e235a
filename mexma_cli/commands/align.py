"""`mexma align`: documents in, the sentences of each pair that are translations of each other out."""

from __future__ import annotations

import logging
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mexma_cli.commands.formats import chosen_format, format_epilog, format_options
from mexma_cli.commands.inputs import check_outputs, check_stdout, command_line, progress_bar
from mexma_cli.commands.options import (
    document_option,
    document_pairs_option,
    encoder_options,
    languages_option,
    no_verify_option,
    options_of,
    path_option,
    report_option,
    result_option,
    shard_option,
    written_option,
)
from mexma_cli.files import resolved
from mexma_cli.formats.bitext import formats, outputs_of
from mexma_cli.settings.stages import AlignSettings, EncoderChoice
from mexma_cli.text.amounts import counted, such_as

if TYPE_CHECKING:
    from mexma_cli.stages.align.align import AlignCounts
    from mexma_cli.stages.align.files import AlignJob
    from mexma_cli.store.layout import Part

log = logging.getLogger(__name__)

_KINDS = 8  # of alignments that are counted one by one on the terminal; --report has all


@click.command("align", epilog=format_epilog(alignments=True))
@click.argument("source", type=click.Path(path_type=Path, allow_dash=True))
@click.argument("target", type=click.Path(path_type=Path, allow_dash=True))
@path_option(
    "--docs",
    help="SOURCE and TARGET hold many documents: two files with the document id of every line.",
    metavar="SOURCE_DOCS TARGET_DOCS",
    add=document_option,
    nargs=2,
)
@document_pairs_option
@document_option(
    "--find-documents",
    is_flag=True,
    help="Pair documents by their content, whatever their ids. Pairs with a mean score below 0.25 are "
    "dropped, unless --min-aligned is given.",
)
@options_of(AlignSettings)
@result_option
@format_options("documents and line numbers", alignments=True)
@written_option(
    "--unaligned",
    help="Write the sentences that were not aligned there, for `mexma mine --within`.",
    metavar="FOLDER",
)
@written_option(
    "--plot",
    help="Draw which sentences are translations of which, and where some are left out (.png, .svg, .pdf), "
    "or show both texts side by side (.html).",
)
@report_option
@shard_option("Align part I of N of the document pairs, into NAME.0000I-of-0000N beside the output.")
@languages_option
@encoder_options
@no_verify_option
def command(
    source: Path,
    target: Path,
    docs: tuple[Path, Path] | None,
    document_pairs: Path | None,
    find_documents: bool,
    settings: AlignSettings,
    output: Path | None,
    format: str | None,
    with_ids: bool,
    unaligned: Path | None,
    plot: Path | None,
    report: Path | None,
    shard: Part | None,
    languages: tuple[str, str],
    encoder: EncoderChoice,
) -> None:
    """Align the sentences of translated documents: score TAB source TAB target.

    Alignments keep the order of the sentences and may join several of a side. SOURCE and TARGET are text
    files with one sentence a line, or embedding stores: one document each, or many with --docs. Or they are
    folders with a document a file, paired by name, or patterns in which * stands for the name. The same
    command continues an interrupted run.

    \b
    Examples:
      mexma align book.deu book.fra -o book.tsv
      mexma align deu.emb fra.emb --docs deu.docs fra.docs -o news.jsonl.gz
      mexma align deu/ fra/ -o news.align --unaligned rest
      mexma align 'minutes/*.de.txt' 'minutes/*.fr.txt' --keep 1-1 -o minutes.tsv --report run.json
      mexma align deu.emb fra.emb --docs deu.docs fra.docs --find-documents -o found.tsv
      mexma align deu/ fra/ --format documents --min-aligned 0.7 --chunks 512 -o books.jsonl.gz
    """
    if str(source) == "-" and str(target) == "-":
        raise click.UsageError("Only one of the inputs can be stdin.")
    if find_documents and document_pairs is not None:
        raise click.UsageError("--document-pairs are known, --find-documents looks for them: give one.")
    format, with_ids = chosen_format(format, output, with_ids, alignments=True)
    if shard is not None and output is None:
        raise click.UsageError("--shard names its output after --output: give that.")
    from mexma_cli.reporting.plot import FORMATS, check_plottable
    from mexma_cli.stages.align.align import Aligned, DocumentInputs
    from mexma_cli.stages.align.files import (
        AlignJob,
        agreed_languages,
        align_files,
        part_of_output,
        prepare_unaligned,
    )
    from mexma_cli.text.writing import prepare_output

    paired = DocumentInputs(source, target, docs, document_pairs, find_documents)
    languages = agreed_languages(paired, languages)
    files = outputs_of(part_of_output(output, shard) if output and shard else output, format, languages)
    check_stdout(files, {"--report": report})
    job = AlignJob(paired, languages, files, format, with_ids, settings, shard, unaligned, report)
    as_page = plot is not None and plot.suffix.lower() == ".html"
    if not as_page:
        check_plottable(plot, (*FORMATS, ".html"))
    check_outputs([*files, unaligned, report, plot], paired.files)
    for path in (*files, report, plot):
        if path and unaligned and resolved(path).is_relative_to(resolved(unaligned)):
            raise click.UsageError(f"{path} lies in the folder of --unaligned: name another one.")
        prepare_output(path)
    if unaligned is not None:
        prepare_unaligned(unaligned)

    def draw(found: Aligned) -> None:
        names = source.name, target.name
        if plot is None:
            return
        from mexma_cli.reporting.align_page import draw_alignment, write_alignment_page

        if as_page:
            write_alignment_page(plot, found.document_pairs(), names)
        else:
            draw_alignment(plot, *found.laid_out(), names=names)

    started = time.monotonic()
    with ExitStack() as stack:
        counts, changed = align_files(
            job, encoder, command_line(), lambda what: progress_bar(stack, what, "document"), draw
        )
    _log_summary(job, counts, time.monotonic() - started)
    if changed:
        log.info("%s in %s", formats(alignments=True)[format].changes, counted(changed, "sentence"))


def _log_summary(job: AlignJob, counts: AlignCounts, seconds: float) -> None:
    from mexma_cli.stages.align.align import GROUP, UNLIKE
    from mexma_cli.stages.align.files import UNALIGNED

    kinds = [(count, f"{one}-{other}") for (one, other), count in counts.kinds.most_common() if one and other]
    if rest := sum(count for count, _ in kinds[_KINDS:]):
        kinds[_KINDS:] = [(rest, "of other kinds")]
    shown = ", ".join(f"{count:,} {kind}" for count, kind in kinds)
    of = counted(counts.pairs, "pair of documents", "pairs of documents")
    log.info(
        "%s of %s in %.1f s%s", counted(counts.aligned, "alignment"), of, seconds, shown and f": {shown}"
    )
    for side, name in enumerate(("source", "target")):
        total, alone = counts.sentences(side)
        log.info("%s: %s, of which %s without a translation", name, counted(total, "sentence"), f"{alone:,}")
    for warning in counts.warnings():
        log.warning("%s", warning)
    if counts.dropped:
        names = {"threshold": "below the threshold", "kind": "not 1-1"}
        names["documents"] = "of documents that are not written"
        reasons = ", ".join(f"{count:,} {names.get(why, why)}" for why, count in counts.dropped.items())
        log.info("dropped: %s; written: %s", reasons, counted(counts.written, "alignment"))
    if counts.too_little:
        left, some = counts.pairs - len(counts.too_little), such_as(counts.too_little)
        if job.inputs.find and job.settings.min_aligned is None:
            why = f"the others have a mean score below {UNLIKE}{some}; --min-aligned 0 keeps them"
        else:
            why = f"of the others too little is aligned{some}"
        log.info("written: %s of %s; %s", f"{left:,}", of, why)
    if job.shard is not None and not counts.pairs:
        log.warning(
            "no pair of documents is in this part: parts are cut between groups of some %s sentences",
            f"{GROUP:,}",
        )
    elif not counts.written:
        log.warning("nothing was aligned")
    if job.unaligned is None:
        return
    if not (job.unaligned / UNALIGNED[-1]).stat().st_size:
        log.info("%s: no documents have sentences left on both sides, for `mexma mine`", job.unaligned)
    else:
        log.info(
            "the rest is in %s: mexma mine %s %s --within %s %s --document-pairs %s",
            *(job.unaligned, *(job.unaligned / name for name in UNALIGNED)),
        )
